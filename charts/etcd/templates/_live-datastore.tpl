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

{{/*
Another name, or none, deletes the former DataStore. While control planes use it, Kamaji holds it half deleted, and there is no way back from that. Its name
stands on the client's Certificate; where an older release has not written it, the default is taken for it.
*/}}
{{- define "etcd.live.renamed" -}}
{{- $name := ternary (include "etcd.dataStoreName" . | quote) "none" .Values.dataStore.enabled -}}
{{- $client := lookup "cert-manager.io/v1" "Certificate" .Release.Namespace "etcd-client" -}}
{{- $formerName := dig "metadata" "annotations" "cozy-etcd.io/datastore" .Release.Namespace $client -}}
{{- $served := or .Values.dataStore.enabled (.Capabilities.APIVersions.Has "kamaji.clastix.io/v1alpha1/DataStore") -}}
{{- if and .Release.IsUpgrade $served (ne $name (quote $formerName)) -}}
  {{- $former := lookup "kamaji.clastix.io/v1alpha1" "DataStore" "" $formerName -}}
  {{- $ours := eq (dig "metadata" "annotations" "meta.helm.sh/release-namespace" "" $former) .Release.Namespace -}}
  {{- $users := dig "status" "usedBy" list $former -}}
  {{- if and $ours $users -}}
    {{- fail (printf "dataStore: these values give %s and delete DataStore %q, which %s use(s); put the former value back, or move the TenantControlPlanes first" $name $formerName ($users | join ", ")) -}}
  {{- end -}}
{{- end -}}
{{- end }}
