{{/*
etcd.affinity: members spread over nodes where that is possible. A hard rule would leave members Pending on small clusters and on node-local volumes, so it is the tenant's to ask for.
*/}}
{{- define "etcd.affinity" -}}
{{- $given := get (include "etcd.withoutNulls" .Values.affinity | fromJson) "value" -}}
{{- if $given -}}
{{- toYaml $given -}}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "etcd.memberLabels" . | nindent 12 }}
{{- end -}}
{{- end }}

{{/* etcd.withoutNulls: a value as JSON {"value": …} without the keys that are null: "not given" in values, but refused by the CRD of the EtcdCluster. */}}
{{- define "etcd.withoutNulls" -}}
{{- $clean := . -}}
{{- if kindIs "map" . -}}
  {{- $clean = dict -}}
  {{- range $key, $value := . -}}
    {{- if not (kindIs "invalid" $value) -}}
      {{- $_ := set $clean $key (get (include "etcd.withoutNulls" $value | fromJson) "value") -}}
    {{- end -}}
  {{- end -}}
{{- else if kindIs "slice" . -}}
  {{- $clean = list -}}
  {{- range . -}}
    {{- $clean = append $clean (get (include "etcd.withoutNulls" . | fromJson) "value") -}}
  {{- end -}}
{{- end -}}
{{- dict "value" $clean | toJson -}}
{{- end }}
