{{/*
etcd.tls.names: every name that anybody dials or that a reverse look-up of a member gives. A wildcard covers one label, so each form stands here by itself.
*/}}
{{- define "etcd.tls.names" -}}
dnsNames:
  - etcd
  {{- range list "svc" (printf "svc.%s" (include "etcd.clusterDomain" .)) }}
  - etcd.{{ $.Release.Namespace }}.{{ . }}
  - etcd-client.{{ $.Release.Namespace }}.{{ . }}
  - "*.etcd.{{ $.Release.Namespace }}.{{ . }}"
  - "*.etcd-headless.{{ $.Release.Namespace }}.{{ . }}"
  {{- end }}
  - localhost
ipAddresses:
  - 127.0.0.1
  - "::1"
{{- end }}

{{- define "etcd.tls.subject" -}}
subject:
  organizations:
    - {{ .Release.Namespace | quote }}
  organizationalUnits:
    - {{ .Release.Name | quote }}
{{- end }}

{{/* etcd.tls.authority: the fields of a CA Certificate. Its key never changes by itself: leaves of the old key would be refused by members that have reloaded. */}}
{{- define "etcd.tls.authority" -}}
isCA: true
{{ include "etcd.tls.subject" . }}
duration: {{ .Values.certificates.ca.duration }}
{{- with .Values.certificates.ca.renewBefore }}
renewBefore: {{ . }}
{{- end }}
usages:
  - signing
  - key encipherment
  - cert sign
privateKey:
  rotationPolicy: Never
  {{- toYaml .Values.certificates.privateKey | nindent 2 }}
issuerRef:
  name: etcd-selfsigning-issuer
  kind: Issuer
  group: cert-manager.io
{{- end }}

{{/* etcd.tls.leaf: {context, issuer, usages}: the fields that all leaf Certificates share. */}}
{{- define "etcd.tls.leaf" -}}
isCA: false
{{ include "etcd.tls.subject" .context }}
duration: {{ .context.Values.certificates.leaf.duration }}
{{- with .context.Values.certificates.leaf.renewBefore }}
renewBefore: {{ . }}
{{- end }}
usages:
  - signing
  - key encipherment
  {{- range .usages }}
  - {{ . }}
  {{- end }}
privateKey:
  rotationPolicy: Always
  {{- toYaml .context.Values.certificates.privateKey | nindent 2 }}
issuerRef:
  name: {{ .issuer }}
  kind: Issuer
  group: cert-manager.io
{{- end }}

{{/* etcd.clusterTLS: spec.tls of the EtcdCluster. */}}
{{- define "etcd.clusterTLS" -}}
client:
  serverSecretRef:
    name: etcd-server-tls
  operatorClientSecretRef:
    name: etcd-client-tls
peer:
  secretRef:
    name: etcd-peer-tls
{{- end }}

{{/* etcd.tls.seconds: {field, value}: a duration of hours, minutes and seconds as seconds. */}}
{{- define "etcd.tls.seconds" -}}
{{- if not (regexMatch "^([0-9]{1,7}h)?([0-9]{1,7}m)?([0-9]{1,7}s)?$" (.value | toString)) -}}
  {{- fail (printf "%s: %q is not a duration; write for example 2160h" .field (.value | toString)) -}}
{{- end -}}
{{- $total := 0 -}}
{{- range $unit, $seconds := dict "h" 3600 "m" 60 "s" 1 -}}
  {{- $count := regexReplaceAll "^0+" (regexFind (printf "[0-9]+%s" $unit) $.value | trimSuffix $unit) "" | default "0" -}}
  {{- $total = add $total (mul (int64 $count) $seconds) -}}
{{- end -}}
{{- $total -}}
{{- end }}
