{{/*
etcd.resources: what the tenant gives are limits. Memory is requested in full; CPU is shared, so the request is the limit divided by the platform's allocation ratio.
*/}}
{{- define "etcd.resources" -}}
{{- $limits := dict -}}
{{- $requests := dict -}}
{{- with .Values.resources -}}
  {{- if not (kindIs "invalid" .cpu) -}}
    {{- $_ := set $limits "cpu" (include "etcd.quantity.text" .cpu) -}}
    {{- $_ := set $requests "cpu" (include "etcd.cpuRequest" (dict "cpu" .cpu "context" $)) -}}
  {{- end -}}
  {{- if not (kindIs "invalid" .memory) -}}
    {{- include "etcd.checkMemory" .memory -}}
    {{- $memory := include "etcd.quantity.text" .memory -}}
    {{- $_ := set $limits "memory" $memory -}}
    {{- $_ := set $requests "memory" $memory -}}
  {{- end -}}
{{- end -}}
{{- if $limits -}}
{{- dict "limits" $limits "requests" $requests | toYaml -}}
{{- end -}}
{{- end }}

{{- define "etcd.cpuRequest" -}}
{{- $milli := include "etcd.quantity.whole" (dict "field" "resources.cpu" "value" .cpu "decimals" 3 "example" "1000m") -}}
{{- if gt (len $milli) 9 -}}
  {{- fail (printf "resources.cpu: %q is more than any node has; write for example 1000m" (.cpu | toString)) -}}
{{- end -}}
{{- $ratio := get (.context.Values._cluster | default dict) "cpu-allocation-ratio" -}}
{{- if has $ratio (list "" nil) -}}
  {{- $ratio = 10 -}}
{{- end -}}
{{- $perMille := include "etcd.quantity.whole" (dict "field" "_cluster.cpu-allocation-ratio" "value" $ratio "decimals" 3 "example" "10") -}}
{{- if or (lt (len $perMille) 4) (gt (len $perMille) 9) -}}
  {{- fail (printf "_cluster.cpu-allocation-ratio: %v is not between 1 and 999999; below 1 the request would exceed the limit" $ratio) -}}
{{- end -}}
{{- printf "%dm" (div (add (mul (int64 $milli) 1000) (sub (int64 $perMille) 1)) (int64 $perMille)) -}}
{{- end }}

{{/* etcd.checkMemory: 512m is half a byte and an easy slip for 512Mi; etcd does not start below some MiB. */}}
{{- define "etcd.checkMemory" -}}
{{- $bytes := include "etcd.quantity.whole" (dict "field" "resources.memory" "value" . "example" "512Mi") -}}
{{- if include "etcd.digits.less" (dict "a" $bytes "b" "16777216") -}}
  {{- fail (printf "resources.memory: %q is %s bytes, and etcd needs 16Mi at the very least; write for example 512Mi" (. | toString) $bytes) -}}
{{- end -}}
{{- end }}
