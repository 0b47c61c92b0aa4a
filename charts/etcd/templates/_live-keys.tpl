{{/*
A pinned key that no longer fits its Certificate stops cert-manager; a new one would part members from their clients. Where only the Secret of an earlier install
is left, its key is the one that stays.
*/}}
{{- define "etcd.live.authority" -}}
{{- $key := .Values.certificates.privateKey -}}
{{- range $name := list "etcd-ca" "etcd-peer-ca" -}}
  {{- $certificate := lookup "cert-manager.io/v1" "Certificate" $.Release.Namespace $name -}}
  {{- with dig "spec" "privateKey" dict $certificate -}}
    {{- if and .algorithm (or (ne .algorithm $key.algorithm) (ne (int .size) (int $key.size))) -}}
      {{- fail (printf "certificates.privateKey: the running authority %s has a key %s %v, these values give %s %v. That would re-key both authorities under running members; put the former values back, or rotate the authorities by the runbook" $name .algorithm .size $key.algorithm $key.size) -}}
    {{- end -}}
  {{- end -}}
  {{- $left := include "etcd.live.keyOf" (lookup "v1" "Secret" $.Release.Namespace (printf "%s-tls" $name)) -}}
  {{- $wanted := printf "%s %d" $key.algorithm (int $key.size) -}}
  {{- if and (not $certificate) $left (ne $left $wanted) -}}
    {{- fail (printf "certificates.privateKey: Secret %s-tls of an earlier install has a key %s, these values give %s, and cert-manager never replaces the key of an authority; put the former values back, or delete all five etcd-*-tls Secrets and try again" $name $left $wanted) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* etcd.live.keyOf: a Secret's private key as "RSA 4096", by its head and its length, which the sizes leave far apart; nothing where it is of another make. */}}
{{- define "etcd.live.keyOf" -}}
{{- $pem := dig "data" "tls.key" "" . | b64dec -}}
{{- if hasPrefix "-----BEGIN RSA PRIVATE KEY-----" $pem -}}
RSA {{ if lt (len $pem) 2070 }}2048{{ else if lt (len $pem) 2850 }}3072{{ else }}4096{{ end }}
{{- else if hasPrefix "-----BEGIN EC PRIVATE KEY-----" $pem -}}
ECDSA {{ if lt (len $pem) 258 }}256{{ else if lt (len $pem) 327 }}384{{ else }}521{{ end }}
{{- end -}}
{{- end }}

{{/*
cert-manager keeps a leaf that is still valid, also when its authority has been made anew: members would trust one authority and clients come with another.
*/}}
{{- define "etcd.live.leftovers" -}}
{{- range $authority, $leaves := dict "etcd-ca-tls" (list "etcd-server-tls" "etcd-client-tls") "etcd-peer-ca-tls" (list "etcd-peer-tls") -}}
  {{- $secret := lookup "v1" "Secret" $.Release.Namespace $authority -}}
  {{- if not (dig "data" "tls.key" "" $secret) -}}
    {{- range $leaves -}}
      {{- if dig "data" "tls.crt" "" (lookup "v1" "Secret" $.Release.Namespace .) -}}
        {{- fail (printf "Secret %s is left from an earlier install, but that of its authority, %s, is gone. The two would never fit again; delete %s (all five etcd-*-tls Secrets belong together), then try again" . $authority .) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}
