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
{{- .Values.clusterDomain | default $platform | default "cluster.local" | toString -}}
{{- end }}

{{/* etcd.check.domain: a name in a certificate that no look-up ever gives would part the members without a word. The longest is that of a member's alias. */}}
{{- define "etcd.check.domain" -}}
{{- $field := ternary "clusterDomain" "_cluster.cluster-domain" (not (empty .Values.clusterDomain)) -}}
{{- $domain := include "etcd.clusterDomain" . -}}
{{- $platform := get (.Values._cluster | default dict) "cluster-domain" -}}
{{- if not (or (kindIs "string" $platform) (kindIs "invalid" $platform)) -}}
  {{- fail (printf "_cluster.cluster-domain: %s is no string; write for example cluster-domain: cozy.local" (toJson $platform)) -}}
{{- end -}}
{{- if hasPrefix "svc." $domain -}}
  {{- fail (printf "%s: %q begins with svc, which the chart puts before it; write for example cozy.local" $field $domain) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$" $domain) -}}
  {{- fail (printf "%s: %q is not a DNS domain in lower case and without a dot at the end; write for example cozy.local, as the cluster's DNS has it" $field $domain) -}}
{{- end -}}
{{- $longest := printf "*.etcd-headless.%s.svc.%s" .Release.Namespace $domain -}}
{{- if gt (len $longest) 253 -}}
  {{- fail (printf "%s: %q makes names of %d characters with the namespace %s, and DNS ends at 253; shorten either" $field $domain (len $longest) .Release.Namespace) -}}
{{- end -}}
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
