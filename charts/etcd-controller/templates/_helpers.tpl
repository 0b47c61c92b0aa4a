{{- define "etcd-controller.labels" -}}
{{ include "etcd-controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "etcd-controller.selector" -}}
app.kubernetes.io/name: etcd-controller
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The name of everything in the release's namespace and of the cluster-wide roles; "-metrics" still fits behind it. */}}
{{- define "etcd-controller.name" -}}
{{- if eq .Release.Name "etcd-controller" }}etcd-controller{{ else }}{{ printf "%s-etcd-controller" .Release.Name | trunc 55 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "etcd-controller.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion | replace "+" "_" }}{{ end }}
{{- end }}
{{- end }}

{{- /* A size that YAML may have made a number of: 8589934592 is not to become 8.589934592e+09. */}}
{{- define "etcd-controller.scratchLimit" -}}
{{- with .Values.scratch.sizeLimit }}{{ if kindIs "float64" . }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end }}{{ end }}
{{- end }}

{{- /* A map of labels or annotations: values that YAML takes for something else, such as true, are strings all the same, and null is none. */}}
{{- define "etcd-controller.strings" -}}
{{- range $name, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $name | quote }}: {{ if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ printf "%.0f" $value | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
The rules of one generated role: (list context kind). The file holds a ClusterRole and a Role for the controller's own namespace, both written by
controller-gen from the markers in the code.
*/}}
{{- define "etcd-controller.rules" -}}
{{- $kind := index . 1 }}
{{- range $doc := splitList "---" ((index . 0).Files.Get "files/role.yaml") }}
{{- $role := fromYaml $doc }}
{{- if eq (toString $role.kind) $kind }}
{{- toYaml $role.rules }}
{{- end }}
{{- end }}
{{- end }}
