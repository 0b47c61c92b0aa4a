{{/*
What an upgrade must not do to objects that are already there. Without a cluster to look at (helm template), nothing is found and nothing is refused.
*/}}
{{- define "etcd.live.checks" -}}
{{- include "etcd.live.served" . -}}
{{- $cluster := lookup "etcd-operator.cozystack.io/v1alpha2" "EtcdCluster" .Release.Namespace (include "etcd.name" .) -}}
{{- if $cluster -}}
  {{- include "etcd.live.terminating" (dict "kind" "EtcdCluster" "object" $cluster "hint" "wait until it is gone") -}}
  {{- include "etcd.live.storage" (dict "context" . "storage" ($cluster.spec.storage | default dict)) -}}
  {{- include "etcd.live.security" (dict "context" . "spec" $cluster.spec) -}}
  {{- include "etcd.live.version" (dict "context" . "version" (dig "version" "" $cluster.spec)) -}}
{{- end -}}
{{- include "etcd.live.authority" . -}}
{{- include "etcd.live.leftovers" . -}}
{{- if .Values.dataStore.enabled -}}
  {{- include "etcd.live.dataStore" . -}}
{{- end -}}
{{- include "etcd.live.renamed" . -}}
{{- end }}

{{/*
A look-up of a kind that the server does not know fails, and says nothing of the remedy. Without a server the list holds versions only, no kinds, and nobody is asked.
*/}}
{{- define "etcd.live.served" -}}
{{- if .Capabilities.APIVersions.Has "v1/Secret" -}}
  {{- $kinds := dict "etcd-operator.cozystack.io/v1alpha2/EtcdCluster" "install the cozystack etcd-operator, v0.5.4 or later" "cert-manager.io/v1/Certificate" "install cert-manager, 1.18 or later" -}}
  {{- if .Values.dataStore.enabled -}}
    {{- $_ := set $kinds "kamaji.clastix.io/v1alpha1/DataStore" "install Kamaji, or set dataStore.enabled to false" -}}
  {{- end -}}
  {{- range $kind, $remedy := $kinds -}}
    {{- if not ($.Capabilities.APIVersions.Has $kind) -}}
      {{- fail (printf "the cluster does not serve %s: %s" $kind $remedy) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* etcd.live.refuse: {value, field, live, wanted, former}; former is how values spell what is live, where that is not plain. */}}
{{- define "etcd.live.refuse" -}}
{{- fail (printf "%s: the running EtcdCluster has %s %s, these values give %s. The field is immutable, so the change needs backup + restore: back up, uninstall, install with the new values, restore; or put the former value back%s" .value .field .live .wanted (get . "former")) -}}
{{- end }}

{{- define "etcd.live.storage" -}}
{{- $wanted := include "etcd.storageClassName" .context | fromYaml -}}
{{- $liveText := ternary (get .storage "storageClassName" | toString | quote) "unset" (hasKey .storage "storageClassName") -}}
{{- $wantedText := ternary (get $wanted "storageClassName" | toString | quote) "unset" (hasKey $wanted "storageClassName") -}}
{{- if ne $liveText $wantedText -}}
  {{- include "etcd.live.refuse" (dict "value" "storageClass" "field" "spec.storage.storageClassName" "live" $liveText "wanted" $wantedText
    "former" (get (dict "unset" ", which is the empty one" "\"\"" ", which is \"-\"") $liveText)) -}}
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

{{/* What is being deleted would be patched now and gone a moment later, with nobody to make it anew. */}}
{{- define "etcd.live.terminating" -}}
{{- with .object.metadata.deletionTimestamp -}}
  {{- fail (printf "%s %q is being deleted since %s (finalizers: %s); %s, then try again" $.kind $.object.metadata.name . ($.object.metadata.finalizers | default (list "none") | join ", ") $.hint) -}}
{{- end -}}
{{- end }}
