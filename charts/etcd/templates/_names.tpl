{{/*
Names are fixed: they are what operator, Kamaji and already running tenants know. The release is called like the chart, so that a namespace holds one.
*/}}
{{- define "etcd.name" -}}
etcd
{{- end }}

{{- define "etcd.dataStoreName" -}}
{{- .Values.dataStore.name | default .Release.Namespace -}}
{{- end }}

{{/* The DNS domain of the Kubernetes cluster: the tenant's word, then the platform's, then what kubeadm uses. */}}
{{- define "etcd.clusterDomain" -}}
{{- $platform := get (.Values._cluster | default dict) "cluster-domain" -}}
{{- .Values.clusterDomain | default $platform | default "cluster.local" -}}
{{- end }}

{{- define "etcd.labels" -}}
app.kubernetes.io/name: etcd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
cozystack.io/service: etcd
{{- end }}

{{/*
What the operator puts on member Pods and on nothing else: Pods of snapshot Jobs carry the cluster label too, but none of the other three.
*/}}
{{- define "etcd.memberLabels" -}}
app.kubernetes.io/name: etcd
app.kubernetes.io/instance: {{ include "etcd.name" . }}
app.kubernetes.io/managed-by: etcd-operator
etcd-operator.cozystack.io/cluster: {{ include "etcd.name" . }}
{{- end }}
