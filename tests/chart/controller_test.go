package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

const noCRDs = "crds: {install: false}\n"

func controller(r Request) ([]*unstructured.Unstructured, error) {
	r.Chart, r.Values = "charts/etcd-controller", noCRDs+r.Values
	return Objects(r)
}

// deployment decodes as strictly as the API server reads types.
func deployment(t *testing.T, values string) *appsv1.Deployment {
	t.Helper()
	objects, err := controller(Request{Release: "etcd-controller", Values: values})
	require.NoError(t, err, values)
	d := &appsv1.Deployment{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(find(t, objects, "Deployment", "etcd-controller").Object, d, true), values)
	return d
}

// Names and namespaces that YAML takes for numbers or truth, and the longest that Helm allows.
func TestControllerNames(t *testing.T) {
	for _, name := range []string{"etcd-controller", "123", "1e3", "true", "null", "off", strings.Repeat("a", 53), strings.Repeat("a", 39) + "-bbbbbbb"} {
		objects, err := controller(Request{Release: name, Namespace: "456"})
		require.NoError(t, err, name)
		require.Len(t, objects, 9)
		for _, o := range objects {
			labels, _, err := unstructured.NestedStringMap(o.Object, "metadata", "labels")
			require.NoError(t, err, o.GetKind())
			require.Equal(t, name, labels["app.kubernetes.io/instance"])
			if o.GetKind() != "ValidatingAdmissionPolicy" && o.GetKind() != "ValidatingAdmissionPolicyBinding" {
				require.Empty(t, validation.IsDNS1123Label(o.GetName()), o.GetName())
			}
			if namespace, found, err := unstructured.NestedString(o.Object, "metadata", "namespace"); found || err != nil {
				require.NoError(t, err)
				require.Equal(t, "456", namespace)
			}
		}
	}
}

// The Pod security standard "restricted", and nothing beyond it.
func TestControllerIsRestricted(t *testing.T) {
	d := deployment(t, "")
	pod, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.NotZero(t, *pod.SecurityContext.RunAsUser)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
	require.Empty(t, container.SecurityContext.Capabilities.Add)
	require.NotNil(t, pod.Volumes[0].EmptyDir)
	require.Equal(t, "8Gi", pod.Volumes[0].EmptyDir.SizeLimit.String())
	require.EqualValues(t, 2, *d.Spec.Replicas)
}

// Values as people write them: without quotes, as numbers, with a digest, on a volume of their own.
func TestControllerValues(t *testing.T) {
	d := deployment(t, `
image: {repository: "registry.example.org:5000/a/b", digest: "sha256:`+strings.Repeat("a", 64)+`"}
podLabels: {policy.cozystack.io/allow-to-apiserver: true}
nodeSelector: {dedicated: true, rack: 5}
scratch: {sizeLimit: 8589934592}
priorityClassName: system-cluster-critical
resources: null
controller: {operatorRestoreMinors: ["3.5", "3.10"], operatorDeployment: cozy-etcd-operator/etcd-operator, extraArgs: [--queue-limit=2h, --zap-log-level=debug]}
`)
	pod := d.Spec.Template.Spec
	require.Equal(t, "registry.example.org:5000/a/b@sha256:"+strings.Repeat("a", 64), pod.Containers[0].Image)
	require.Equal(t, "true", d.Spec.Template.Labels["policy.cozystack.io/allow-to-apiserver"])
	require.Equal(t, map[string]string{"dedicated": "true", "rack": "5"}, pod.NodeSelector)
	require.EqualValues(t, 8<<30, pod.Volumes[0].EmptyDir.SizeLimit.Value())
	require.Equal(t, []string{
		"--plans=true", "--backup-deadline=45m", "--operator-restore-minors=3.5,3.10", "--operator-deployment=cozy-etcd-operator/etcd-operator",
		"--scratch-dir=/scratch", "--scratch-limit=8589934592", "--queue-limit=2h", "--zap-log-level=debug",
	}, pod.Containers[0].Args)

	d = deployment(t, `
image: {repository: "localhost:5000/my_org/a--b.c"}
nodeSelector: {a: null}
controller: {backupDeadline: 1h30m0s}
podLabels: {number: 10737418240, none: null, empty: ""}
podAnnotations: {prometheus.io/scrape: true, prometheus.io/port: 8080, half: 0.5}
tolerations: [{key: a, operator: Equal, value: "true", effect: NoExecute, tolerationSeconds: 60}]
`)
	require.Equal(t, "localhost:5000/my_org/a--b.c:0.1.0", d.Spec.Template.Spec.Containers[0].Image)
	require.Contains(t, d.Spec.Template.Spec.Containers[0].Args, "--backup-deadline=1h30m0s")
	require.Empty(t, d.Spec.Template.Spec.NodeSelector)
	require.Equal(t, "10737418240", d.Spec.Template.Labels["number"])
	require.Contains(t, d.Spec.Template.Labels, "empty")
	require.NotContains(t, d.Spec.Template.Labels, "none")
	require.Equal(t, map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "half": "0.5"}, d.Spec.Template.Annotations)
	require.EqualValues(t, 60, *d.Spec.Template.Spec.Tolerations[0].TolerationSeconds)

	d = deployment(t, `scratch: {volume: {ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}}}}}`)
	require.Nil(t, d.Spec.Template.Spec.Volumes[0].EmptyDir)
	require.NotNil(t, d.Spec.Template.Spec.Volumes[0].Ephemeral)
}

// What is off by default: the monitor chooses the Service, the budget the Pods. Both are left out where an older release's values do not know them.
func TestControllerExtras(t *testing.T) {
	objects, err := controller(Request{Values: "serviceMonitor: {enabled: true, labels: {release: prometheus}}\npodDisruptionBudget: {enabled: true}"})
	require.NoError(t, err)
	monitor, service := find(t, objects, "ServiceMonitor", "etcd-etcd-controller"), find(t, objects, "Service", "etcd-etcd-controller-metrics")
	require.Equal(t, "prometheus", monitor.GetLabels()["release"])
	require.Subset(t, service.GetLabels(), selectorOf(t, monitor))
	budget := find(t, objects, "PodDisruptionBudget", "etcd-etcd-controller")
	require.Equal(t, selectorOf(t, find(t, objects, "Deployment", "etcd-etcd-controller")), selectorOf(t, budget))
	for _, values := range []string{"", "serviceMonitor: null\npodDisruptionBudget: null", "serviceMonitor: {enabled: null}", "podDisruptionBudget: {enabled: false}"} {
		objects, err = controller(Request{Values: values})
		require.NoError(t, err, values)
		require.Len(t, objects, 9, values)
	}
}

func selectorOf(t *testing.T, object *unstructured.Unstructured) map[string]string {
	t.Helper()
	selector, found, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	require.NoError(t, err)
	require.True(t, found)
	return selector
}

// Typos and slips, with the field and what stands there.
func TestControllerRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                                      "replica",
		"replicas: -1":                                    "/replicas",
		"image: {tag: 1.10}":                              "/image/tag",
		"image: {tag: \"sha256:abc\"}":                    "sha256:abc",
		"image: {digest: abc}":                            "'abc'",
		"image: {repository: null}":                       "repository",
		"image: {repository: \"a:\"}":                     `image.repository: "a:"`,
		"image: {repository: \"ghcr.io/a/b:1.2\"}":        "write a tag into image.tag",
		"image: {repository: \"ghcr.io/a/b@sha256:0\"}":   "a digest into image.digest",
		"image: {repository: \"https://ghcr.io/a\"}":      "leave out https://",
		"image: {repository: ghcr.io/A/b}":                `"ghcr.io/A/b" is not REGISTRY/NAME in lower case`,
		"image: {repository: ghcr.io/a//b}":               "image.repository",
		"image: {repository: \"\"}":                       "/image/repository",
		"resources: {limits: {memory: 512MB}}":            "'512MB'",
		"resources: {limits: {cpu: null}}":                "/resources/limits/cpu",
		"resources: {requests: {cpu: -1}}":                "got -1",
		"scratch: {volume: {name: x, emptyDir: {}}}":      "scratch.volume: ",
		"nodeSelector: {a: {b: c}}":                       "/nodeSelector/a",
		"podLabels: {a: x y}":                             "'x y'",
		"podAnnotations: {a: [b]}":                        "/podAnnotations/a",
		"tolerations: [{key: a, value: true}]":            "/tolerations/0/value",
		"tolerations: [null]":                             "/tolerations/0",
		"tolerations: [{Key: a}]":                         "'Key'",
		"priorityClassName: Bad_Name":                     "'Bad_Name'",
		"serviceMonitor: {enabled: \"true\"}":             "/serviceMonitor/enabled",
		"affinity: {nodeAffinity: {required: {}}}":        "'required'",
		"scratch: {sizeLimit: 8gb}":                       "'8gb'",
		"scratch: {sizeLimit: null}":                      "sizeLimit",
		"affinity: {podAntiAfinity: {}}":                  "podAntiAfinity",
		"resources: {limit: {}}":                          "'limit'",
		"controller: null":                                "controller",
		"controller: {plans: null}":                       "plans",
		"controller: {backupDeadline: 45}":                "/controller/backupDeadline",
		"controller: {backupDeadline: 30s}":               "'30s'",
		"controller: {backupDeadline: 1d}":                "'1d'",
		"controller: {operatorRestoreMinors: [3.10]}":     "/controller/operatorRestoreMinors/0",
		"controller: {operatorRestoreMinors: [3.6.11]}":   "'3.6.11'",
		"controller: {operatorRestoreMinors: []}":         "operatorRestoreMinors",
		"controller: {operatorDeployment: etcd-operator}": "'etcd-operator'",
		"controller: {extraArgs: --leader-elect=false}":   "/controller/extraArgs",
		"controller: {extraArgs: [--leader-elect=false]}": "controller.extraArgs: --leader-elect is the chart's own",
		"controller: {extraArgs: [-scratch-limit=1Gi]}":   "set scratch.sizeLimit",
		"controller: {extraArgs: [debug]}":                "'debug'",
		"podLabels: {app.kubernetes.io/name: other}":      "podLabels: app.kubernetes.io/name is the chart's own",
		"imagePullSecrets: [pull]":                        "/imagePullSecrets/0",
		"crds: {install: \"false\"}":                      "/crds/install",
	} {
		_, err := controller(Request{Values: values})
		if strings.HasPrefix(values, "crds") {
			_, err = Render(Request{Chart: "charts/etcd-controller", Values: values})
		}
		require.ErrorContains(t, err, want, values)
	}
	_, err := controller(Request{Kinds: []string{"v1/Secret"}})
	require.ErrorContains(t, err, "does not serve admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
}

// Each flag of the binary can be given: by a value of its own, or among the further ones.
func TestControllerFlags(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(Root(), "controller/cmd/etcd-controller/options.go"))
	require.NoError(t, err)
	known := map[string]bool{}
	for _, match := range regexp.MustCompile(`fs\.\w*(?:Var\(&[\w.]+, |Func\()"([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		known["--"+match[1]] = true
		_, err := controller(Request{Values: "controller: {extraArgs: [--" + match[1] + "=1]}"})
		if err != nil {
			require.ErrorContains(t, err, "--"+match[1]+" is the chart's own")
		}
	}
	require.Greater(t, len(known), 10)
	for _, arg := range deployment(t, "controller: {operatorDeployment: a/b}").Spec.Template.Spec.Containers[0].Args {
		name, _, _ := strings.Cut(arg, "=")
		require.True(t, known[name], arg)
		_, err := controller(Request{Values: "controller: {extraArgs: [" + arg + "]}"})
		require.ErrorContains(t, err, "is the chart's own", arg)
	}
}
