{{/*
etcd.live.version: {context, version}: members made from now on get another version than the cluster's. What counts is what members run, because the operator
leaves running ones as they are; and of them the lowest, because etcd's own idea of the cluster's version is that.
*/}}
{{- define "etcd.live.version" -}}
{{- $wanted := .context.Values.version -}}
{{- $lowest := "" -}}
{{- if and .version (ne $wanted .version) -}}
  {{- range dig "items" list (lookup "etcd-operator.cozystack.io/v1alpha2" "EtcdMember" .context.Release.Namespace "") -}}
    {{- $runs := dig "status" "version" "" . | default .spec.version -}}
    {{- if and (eq .spec.clusterName (include "etcd.name" $)) (or (not $lowest) (semverCompare (printf "< %s" $lowest) $runs)) -}}
      {{- $lowest = $runs -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if $lowest -}}
  {{- $from := semver $lowest -}}
  {{- $to := semver $wanted -}}
  {{- $told := printf "version: members run %s, these values give %s" $lowest $wanted -}}
  {{- if lt $to.Minor $from.Minor -}}
    {{- fail (printf "%s, and etcd does not start on data of a newer minor; put %d.%d back" $told $from.Major $from.Minor) -}}
  {{- else if gt $to.Minor (add1 $from.Minor) -}}
    {{- fail (printf "%s, and etcd moves by one minor at a time; take %d.%d first, until every member runs it" $told $from.Major (add1 $from.Minor)) -}}
  {{- else if and (ge $to.Minor 6) (semverCompare "< 3.5.26" $lowest) -}}
    {{- fail (printf "%s, and from 3.5 before 3.5.26 members may turn into learners or removed ones come back; take 3.5.26 or a later 3.5 first, until every member runs it" $told) -}}
  {{- end -}}
{{- end -}}
{{- end }}
