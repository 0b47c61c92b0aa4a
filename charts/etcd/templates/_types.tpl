{{/*
etcd.types: the kind of each value, whether null stands for "not given", and an example. The schema lets any type through, because all that it can say of a wrong
one is its type; a test compares the two.
*/}}
{{- define "etcd.types" -}}
_cluster: [map, null, "{cluster-domain: cozy.local}"]
affinity: [map, null, "{}"]
certificates: [map, needed, "{leaf: {duration: 2160h}}"]
certificates.ca: [map, needed, "{duration: 87600h}"]
certificates.ca.duration: [string, needed, 87600h]
certificates.ca.renewBefore: [string, null, 8760h]
certificates.leaf: [map, needed, "{duration: 2160h}"]
certificates.leaf.duration: [string, needed, 2160h]
certificates.leaf.renewBefore: [string, null, 720h]
certificates.privateKey: [map, needed, "{algorithm: RSA, size: 4096}"]
certificates.privateKey.algorithm: [string, needed, RSA]
certificates.privateKey.size: [whole number, needed, "4096"]
clusterDomain: [string, null, cozy.local]
dataStore: [map, needed, "{enabled: true}"]
dataStore.enabled: [boolean, needed, "true"]
dataStore.name: [string, null, '"tenant-a"']
dataStore.precreateSecrets: [boolean, null, "true"]
quotaBackendBytes: [quantity, null, 2Gi]
replicas: [whole number, needed, "3"]
resources: [map, null, "{cpu: 1000m, memory: 512Mi}"]
resources.cpu: [quantity, null, 1000m]
resources.memory: [quantity, null, 512Mi]
size: [quantity, needed, 4Gi]
storageClass: [string, null, '"fast"']
version: [string, needed, '"3.6.11"']
{{- end }}

{{/* etcd.checks.types: every template that reads values begins with it, since nobody says which one Helm renders first. */}}
{{- define "etcd.checks.types" -}}
{{- range $path, $type := include "etcd.types" . | fromYaml -}}
  {{- $value := $.Values -}}
  {{- range splitList "." $path -}}
    {{- if kindIs "map" $value -}}{{- $value = index $value . -}}{{- else -}}{{- $value = index (dict) . -}}{{- end -}}
  {{- end -}}
  {{- include "etcd.check.type" (dict "path" $path "value" $value "want" (index $type 0) "optional" (kindIs "invalid" (index $type 1)) "example" (index $type 2)) -}}
{{- end -}}
{{- end }}

{{/* etcd.check.type: {path, value, want, optional, example}. */}}
{{- define "etcd.check.type" -}}
{{- $is := get (dict "string" "string" "bool" "boolean" "map" "map" "slice" "list" "invalid" "null") (kindOf .value) | default "number" -}}
{{- if eq (typeOf .value) "json.Number" -}}{{- $is = "number" -}}{{- end -}}
{{- $fits := eq $is .want -}}
{{- if eq .want "quantity" -}}
  {{- $fits = or (eq $is "string") (eq $is "number") -}}
{{- else if eq .want "whole number" -}}
  {{- $fits = and (eq $is "number") (regexMatch "^-?[0-9]+([.]0+)?$" (include "etcd.quantity.text" .value)) -}}
{{- end -}}
{{- if not (or $fits (and .optional (eq $is "null"))) -}}
  {{- fail (printf "%s: %s is no %s; write for example %s: %s" .path (toJson .value) .want (splitList "." .path | last) .example) -}}
{{- end -}}
{{- end }}
