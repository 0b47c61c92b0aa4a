{{/*
What the schema cannot say, or says only where it is consulted. Each check renders nothing or fails with the value's name, what it is and what to do.
*/}}
{{- define "etcd.checks" -}}
{{- include "etcd.check.release" . -}}
{{- include "etcd.check.version" . -}}
{{- include "etcd.check.replicas" . -}}
{{- include "etcd.check.domain" . -}}
{{- include "etcd.check.certificates" . -}}
{{- include "etcd.check.affinity" . -}}
{{- end }}

{{/* One name, because Services, Secrets and the names in running tenants' certificates are all built on it. */}}
{{- define "etcd.check.release" -}}
{{- if ne .Release.Name "etcd" -}}
  {{- fail (printf "the release is called %q, but this chart must be installed as \"etcd\", once per namespace: helm install etcd ... --namespace %s" .Release.Name .Release.Namespace) -}}
{{- end -}}
{{- end }}

{{- define "etcd.check.version" -}}
{{- $version := .Values.version | toString -}}
{{- if not (regexMatch "^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)$" $version) -}}
  {{- fail (printf "version: %q is not X.Y.Z; write for example 3.6.11, without a leading v and without a pre-release" $version) -}}
{{- end -}}
{{- if not (regexMatch "^3[.]([5-9]|[1-9][0-9]{1,2})[.][0-9]{1,3}$" $version) -}}
  {{- fail (printf "version: %s is neither 3.5 nor a later etcd 3; the operator knows no other major, and no backup of an older minor could be restored; write for example 3.6.11" $version) -}}
{{- end -}}
{{- end }}

{{- define "etcd.check.replicas" -}}
{{- $replicas := include "etcd.quantity.text" .Values.replicas -}}
{{- if not (has $replicas (list "0" "1" "3" "5" "7")) -}}
  {{- fail (printf "replicas: %q; use 1, 3, 5 or 7 (an even number survives no more failures than the odd one below it), or 0 to park a running cluster" $replicas) -}}
{{- end -}}
{{- end }}

{{- define "etcd.check.certificates" -}}
{{- $ca := .Values.certificates.ca -}}
{{- $leaf := .Values.certificates.leaf -}}
{{- $caWindow := include "etcd.check.lifetime" (dict "field" "certificates.ca" "given" $ca) | int64 -}}
{{- $_ := include "etcd.check.lifetime" (dict "field" "certificates.leaf" "given" $leaf) -}}
{{- if gt (include "etcd.tls.seconds" (dict "field" "certificates.leaf.duration" "value" $leaf.duration) | int64) $caWindow -}}
  {{- fail (printf "certificates.leaf.duration: %s is longer than what is left of the authorities when they are renewed (%s); a leaf would outlive its authority; shorten it, or set certificates.ca.renewBefore or certificates.ca.duration higher" $leaf.duration ($ca.renewBefore | default (printf "a third of %s" $ca.duration))) -}}
{{- end -}}
{{- $key := .Values.certificates.privateKey -}}
{{- $sizes := get (dict "RSA" (list 2048 3072 4096) "ECDSA" (list 256 384 521)) ($key.algorithm | toString) -}}
{{- if not $sizes -}}
  {{- fail (printf "certificates.privateKey.algorithm: %q is neither RSA nor ECDSA" ($key.algorithm | toString)) -}}
{{- end -}}
{{- if not (has (int $key.size) $sizes) -}}
  {{- fail (printf "certificates.privateKey.size: %v does not go with %s; use %s" $key.size $key.algorithm ($sizes | join ", ")) -}}
{{- end -}}
{{- end }}

{{/* etcd.check.lifetime: {field, given{duration, renewBefore}}: the seconds between renewal and end, which cert-manager puts at a third where nothing is said. */}}
{{- define "etcd.check.lifetime" -}}
{{- $life := include "etcd.tls.seconds" (dict "field" (printf "%s.duration" .field) "value" .given.duration) | int64 -}}
{{- if gt $life 9223200000 -}}
  {{- fail (printf "%s.duration: %s is more than the 2562000h (292 years) that cert-manager can read" .field .given.duration) -}}
{{- end -}}
{{- if lt $life 3600 -}}
  {{- fail (printf "%s.duration: %s is under the hour that cert-manager asks for" .field .given.duration) -}}
{{- end -}}
{{- if .given.renewBefore -}}
  {{- $window := include "etcd.tls.seconds" (dict "field" (printf "%s.renewBefore" .field) "value" .given.renewBefore) | int64 -}}
  {{- if or (ge $window $life) (lt $window 300) -}}
    {{- fail (printf "%s.renewBefore: %s must be at least 5m and less than the duration, %s; else the certificate is renewed without end" .field .given.renewBefore .given.duration) -}}
  {{- end -}}
  {{- if lt (sub $life $window) (max 300 (div $life 20)) -}}
    {{- fail (printf "%s.renewBefore: %s leaves less than a twentieth of the duration, %s, between renewals (and never under 5m); the certificate would be renewed all the time; lower it" .field .given.renewBefore .given.duration) -}}
  {{- end -}}
  {{- $window -}}
{{- else -}}
  {{- div $life 3 -}}
{{- end -}}
{{- end }}
