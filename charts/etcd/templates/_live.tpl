{{/*
What an upgrade must not do to objects that are already there. Without a cluster to look at (helm template), nothing is found and nothing is refused.
*/}}
{{- define "etcd.live.checks" -}}
{{- $cluster := lookup "etcd-operator.cozystack.io/v1alpha2" "EtcdCluster" .Release.Namespace (include "etcd.name" .) -}}
{{- if $cluster -}}
  {{- include "etcd.live.terminating" (dict "kind" "EtcdCluster" "object" $cluster "hint" "wait until it is gone") -}}
  {{- include "etcd.live.storage" (dict "context" . "storage" ($cluster.spec.storage | default dict)) -}}
  {{- include "etcd.live.security" (dict "context" . "spec" $cluster.spec) -}}
{{- end -}}
{{- include "etcd.live.authority" . -}}
{{- include "etcd.live.leftovers" . -}}
{{- if .Values.dataStore.enabled -}}
  {{- include "etcd.live.dataStore" . -}}
{{- end -}}
{{- end }}

{{/* etcd.live.refuse: {value, field, live, wanted}. */}}
{{- define "etcd.live.refuse" -}}
{{- fail (printf "%s: the running EtcdCluster has %s %s, these values give %s. The field is immutable, so the change needs backup + restore: back up, uninstall, install with the new values, restore; or put the former value back" .value .field .live .wanted) -}}
{{- end }}

{{- define "etcd.live.storage" -}}
{{- $wanted := include "etcd.storageClassName" .context | fromYaml -}}
{{- $liveText := ternary (get .storage "storageClassName" | toString | quote) "unset" (hasKey .storage "storageClassName") -}}
{{- $wantedText := ternary (get $wanted "storageClassName" | toString | quote) "unset" (hasKey $wanted "storageClassName") -}}
{{- if ne $liveText $wantedText -}}
  {{- include "etcd.live.refuse" (dict "value" "storageClass" "field" "spec.storage.storageClassName" "live" $liveText "wanted" $wantedText) -}}
{{- end -}}
{{- with get .storage "medium" -}}
  {{- include "etcd.live.refuse" (dict "value" "size" "field" "spec.storage.medium" "live" (quote .) "wanted" "a volume") -}}
{{- end -}}
{{- if hasKey .storage "size" -}}
  {{- $live := include "etcd.quantity.whole" (dict "field" "spec.storage.size of the running EtcdCluster" "value" .storage.size "example" "4Gi") -}}
  {{- if include "etcd.digits.less" (dict "a" (include "etcd.storageBytes" .context) "b" $live) -}}
    {{- include "etcd.live.refuse" (dict "value" "size" "field" "spec.storage.size" "live" (.storage.size | toString | quote) "wanted" (printf "%q, which is smaller" (.context.Values.size | toString))) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "etcd.live.security" -}}
{{- $wanted := include "etcd.clusterTLS" .context | fromYaml -}}
{{- $live := get .spec "tls" | default dict -}}
{{- if ne (toJson $live) (toJson $wanted) -}}
  {{- include "etcd.live.refuse" (dict "value" "tls" "field" "spec.tls" "live" (toJson $live) "wanted" (toJson $wanted)) -}}
{{- end -}}
{{- with get .spec "auth" -}}
  {{- include "etcd.live.refuse" (dict "value" "auth" "field" "spec.auth" "live" (toJson .) "wanted" "none") -}}
{{- end -}}
{{- end }}

{{/* A pinned key that no longer fits its Certificate stops cert-manager; a new one would part members from their clients. */}}
{{- define "etcd.live.authority" -}}
{{- $key := .Values.certificates.privateKey -}}
{{- $certificate := lookup "cert-manager.io/v1" "Certificate" .Release.Namespace "etcd-ca" -}}
{{- with dig "spec" "privateKey" dict $certificate -}}
  {{- if and .algorithm (or (ne .algorithm $key.algorithm) (ne (int .size) (int $key.size))) -}}
    {{- fail (printf "certificates.privateKey: the running authority etcd-ca has a key %s %v, these values give %s %v. That would re-key both authorities under running members; put the former values back, or rotate the authorities by the runbook" .algorithm .size $key.algorithm $key.size) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/*
cert-manager keeps a leaf that is still valid, also when its authority has been made anew: members would trust one authority and clients come with another.
*/}}
{{- define "etcd.live.leftovers" -}}
{{- range $authority, $leaves := dict "etcd-ca-tls" (list "etcd-server-tls" "etcd-client-tls") "etcd-peer-ca-tls" (list "etcd-peer-tls") -}}
  {{- $secret := lookup "v1" "Secret" $.Release.Namespace $authority -}}
  {{- if not (dig "data" "tls.key" "" $secret) -}}
    {{- range $leaves -}}
      {{- if dig "data" "tls.crt" "" (lookup "v1" "Secret" $.Release.Namespace .) -}}
        {{- fail (printf "Secret %s is left from an earlier install, but that of its authority, %s, is gone. The two would never fit again; delete %s (all five etcd-*-tls Secrets belong together), then try again" . $authority .) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The DataStore is cluster-scoped, so two tenants can ask for one name. */}}
{{- define "etcd.live.dataStore" -}}
{{- $name := include "etcd.dataStoreName" . -}}
{{- $store := lookup "kamaji.clastix.io/v1alpha1" "DataStore" "" $name -}}
{{- if $store -}}
  {{- $annotations := $store.metadata.annotations | default dict -}}
  {{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
  {{- if and (ne $owner "/") (ne $owner (printf "%s/%s" .Release.Namespace .Release.Name)) -}}
    {{- fail (printf "dataStore.name: DataStore %q belongs to the release %s; set dataStore.name to a name of your own, or dataStore.enabled to false" $name $owner) -}}
  {{- end -}}
  {{- include "etcd.live.terminating" (dict "kind" "DataStore" "object" $store "hint" "it stays until no TenantControlPlane uses it; delete or move those first") -}}
{{- end -}}
{{- end }}

{{/* What is being deleted would be patched now and gone a moment later, with nobody to make it anew. */}}
{{- define "etcd.live.terminating" -}}
{{- with .object.metadata.deletionTimestamp -}}
  {{- fail (printf "%s %q is being deleted since %s (finalizers: %s); %s, then try again" $.kind $.object.metadata.name . ($.object.metadata.finalizers | default (list "none") | join ", ") $.hint) -}}
{{- end -}}
{{- end }}
