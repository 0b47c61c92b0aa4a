{{- define "etcd.storageBytes" -}}
{{- include "etcd.quantity.whole" (dict "field" "size" "value" .Values.size "example" "4Gi") -}}
{{- end }}

{{/*
etcd.storageClassName: the key and its value, or nothing. An empty name would switch dynamic provisioning off for good, because the field is immutable; whoever wants that writes "-".
*/}}
{{- define "etcd.storageClassName" -}}
{{- if eq (.Values.storageClass | default "") "-" -}}
storageClassName: ""
{{- else if .Values.storageClass -}}
storageClassName: {{ .Values.storageClass | quote }}
{{- end -}}
{{- end }}

{{/*
etcd.quotaBackendBytes: the tenant's own figure, else 95 % of the volume, at most the 8 GiB that etcd is tested with. etcd reads 0 as "2 GiB", so 0 never leaves here.
*/}}
{{- define "etcd.quotaBackendBytes" -}}
{{- $volume := include "etcd.storageBytes" . -}}
{{- $given := include "etcd.quantity.text" .Values.quotaBackendBytes -}}
{{- if $given -}}
  {{- $quota := include "etcd.quantity.whole" (dict "field" "quotaBackendBytes" "value" .Values.quotaBackendBytes "example" "2Gi, or leave it empty for 95 % of size") -}}
  {{- if include "etcd.digits.less" (dict "a" $volume "b" $quota) -}}
    {{- fail (printf "quotaBackendBytes: %s (%s bytes) is larger than the volume, size %s (%s bytes); lower it or grow size" $given $quota (.Values.size | toString) $volume) -}}
  {{- end -}}
  {{- if include "etcd.digits.less" (dict "a" $quota "b" "1048576") -}}
    {{- fail (printf "quotaBackendBytes: %s is %s bytes, which the first keys fill; write for example 2Gi, or leave it empty for 95 %% of size" $given $quota) -}}
  {{- end -}}
  {{- $quota -}}
{{- else if gt (len $volume) 12 -}}
  {{- include "etcd.quotaCap" . -}}
{{- else -}}
  {{- $quota := min (div (mul (int64 $volume) 95) 100) (include "etcd.quotaCap" . | int64) -}}
  {{- if not $quota -}}
    {{- fail (printf "size: %q leaves no room for a database; write for example 4Gi" (.Values.size | toString)) -}}
  {{- end -}}
  {{- $quota -}}
{{- end -}}
{{- end }}

{{- define "etcd.quotaCap" -}}
8589934592
{{- end }}
