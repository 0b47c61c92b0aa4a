{{- define "etcd-controller.labels" -}}
{{ include "etcd-controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "etcd-controller.selector" -}}
app.kubernetes.io/name: etcd-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The name of everything in the release's namespace and of the cluster-wide roles. */}}
{{- define "etcd-controller.name" -}}
{{- if eq .Release.Name "etcd-controller" }}etcd-controller{{ else }}{{ printf "%s-etcd-controller" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
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
