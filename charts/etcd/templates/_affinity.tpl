{{/*
etcd.affinity: members spread over nodes where that is possible. A hard rule would leave members Pending on small clusters and on node-local volumes, so it is the tenant's to ask for.
*/}}
{{- define "etcd.affinity" -}}
{{- if .Values.affinity -}}
{{- toYaml .Values.affinity -}}
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
