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

{{/* etcd.check.affinity: what the CRD lets through and the API server then refuses in each member's Pod, where nobody looks. As JSON, since the places are many. */}}
{{- define "etcd.check.affinity" -}}
{{- $text := toJson .Values.affinity -}}
{{- range regexFindAll `"weight":-?[0-9.e+]+` $text -1 -}}
  {{- $weight := trimPrefix `"weight":` . -}}
  {{- if not (regexMatch "^([1-9][0-9]?|100)$" $weight) -}}
    {{- fail (printf "affinity: weight %s is no whole number from 1 to 100; the API server would refuse every member's Pod" $weight) -}}
  {{- end -}}
{{- end -}}
{{- $operators := list "In" "NotIn" "Exists" "DoesNotExist" "Gt" "Lt" -}}
{{- range regexFindAll `"key":"[^"]*","operator":"[^"]*"` $text -1 -}}
  {{- $operator := regexFind `[^"]*"$` . | trimSuffix `"` -}}
  {{- if not (has $operator $operators) -}}
    {{- fail (printf "affinity: operator %q is none of %s; the API server would refuse every member's Pod" $operator (join ", " $operators)) -}}
  {{- end -}}
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
