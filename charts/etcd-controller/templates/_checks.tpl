{{- /* What the schema cannot say. Each check renders nothing, or fails with the value's name, what it is and what to do. */}}
{{- define "etcd-controller.checks" -}}
{{- include "etcd-controller.check.flags" . -}}
{{- include "etcd-controller.check.labels" . -}}
{{- include "etcd-controller.check.image" . -}}
{{- include "etcd-controller.check.volume" . -}}
{{- include "etcd-controller.check.alone" . -}}
{{- end }}

{{- /* A flag that the chart sets would be given twice, and what hangs on it, such as a port or a right, would not follow. */}}
{{- define "etcd-controller.check.flags" -}}
{{- $own := dict
  "plans" "set controller.plans" "backup-deadline" "set controller.backupDeadline" "operator-restore-minors" "set controller.operatorRestoreMinors"
  "operator-deployment" "set controller.operatorDeployment" "scratch-limit" "set scratch.sizeLimit" "scratch-dir" "set scratch.volume for another place"
  "namespace" "install the release into another namespace" "health-probe-bind-address" "the probes ask port 8081" "metrics-bind-address" "the Service has port 8080"
  "leader-elect" "without it two Pods work at once, if only during an upgrade" -}}
{{- range .Values.controller.extraArgs -}}
  {{- $flag := regexReplaceAll "=.*" (regexReplaceAll "^--?" . "") "" -}}
  {{- with get $own $flag -}}
    {{- fail (printf "controller.extraArgs: --%s is the chart's own; take it out (%s)" $flag .) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- define "etcd-controller.check.labels" -}}
{{- range $name, $value := include "etcd-controller.labels" . | fromYaml -}}
  {{- if hasKey ($.Values.podLabels | default dict) $name -}}
    {{- fail (printf "podLabels: %s is the chart's own (%s), and its Deployment finds its Pods by such; take it out" $name $value) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{- /* A name that the node cannot read would show only as an ImagePullBackOff. */}}
{{- define "etcd-controller.check.image" -}}
{{- $part := "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*" -}}
{{- if not (regexMatch (printf "^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]+)?/)?%s(/%s)*$" $part $part) .Values.image.repository) -}}
  {{- fail (printf "image.repository: %q is not REGISTRY/NAME in lower case; leave out https://, and write a tag into image.tag and a digest into image.digest" .Values.image.repository) -}}
{{- end -}}
{{- end }}

{{- define "etcd-controller.check.volume" -}}
{{- if hasKey (.Values.scratch.volume | default dict) "name" -}}
  {{- fail (printf "scratch.volume: %s has the name, which is the chart's own (scratch); leave only the source, such as ephemeral" (toJson .Values.scratch.volume)) -}}
{{- end -}}
{{- end }}

{{- /* The policy is cluster-wide and has one name, so a second release is noticed by it. Without a cluster to look at, nothing is found. */}}
{{- define "etcd-controller.check.alone" -}}
{{- $kinds := .Capabilities.APIVersions -}}
{{- if and ($kinds.Has "v1/Secret") (not ($kinds.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")) -}}
  {{- fail "the cluster does not serve admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy, without which nothing keeps an empty etcd from coming up during a restore: use Kubernetes 1.31 or later with that API switched on" -}}
{{- end -}}
{{- $policy := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "etcd-restore-fence.cozy-etcd.io" -}}
{{- $owner := include "etcd-controller.owner" $policy -}}
{{- if and $policy (ne $owner (printf "%s/%s" .Release.Namespace .Release.Name)) -}}
  {{- fail (printf "the controller is in this cluster already (its admission policy belongs to %s), and one does for all tenants; uninstall that first, or leave this one out" $owner) -}}
{{- end -}}
{{- end }}

{{- /* etcd-controller.owner: the release of an object as NAMESPACE/NAME. */}}
{{- define "etcd-controller.owner" -}}
{{- $annotations := dig "metadata" "annotations" dict (. | default dict) -}}
{{- if hasKey $annotations "meta.helm.sh/release-name" -}}
{{- get $annotations "meta.helm.sh/release-namespace" }}/{{ get $annotations "meta.helm.sh/release-name" -}}
{{- else -}}
no Helm release
{{- end -}}
{{- end }}
