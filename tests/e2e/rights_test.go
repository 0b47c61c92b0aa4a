package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// The chart's ServiceAccount may do what the controller does and no more: above all, it cannot enumerate Secrets.
func TestLeastPrivilege(t *testing.T) {
	for _, c := range []struct {
		verb, group, resource, namespace string
		allowed                          bool
	}{
		{"get", "", "secrets", "tenant-x", true},
		{"list", "", "secrets", "tenant-x", false},
		{"watch", "", "secrets", "", false},
		{"create", "", "secrets", "tenant-x", false},
		{"create", "", "events", harness.SystemNamespace, true}, // of the leader election
		{"create", "", "events", "tenant-x", false},
		{"delete", "", "pods", "tenant-x", false},
		{"create", "", "configmaps", "tenant-x", true},
		{"delete", "", "configmaps", "tenant-x", false},
		{"list", "", "configmaps", "tenant-x", false},
		{"list", "kamaji.clastix.io", "tenantcontrolplanes", "", true},
		{"patch", "kamaji.clastix.io", "tenantcontrolplanes", "tenant-x", false},
		{"patch", "apps", "deployments", "tenant-x", false},
		{"delete", "", "persistentvolumeclaims", "tenant-x", false},
		{"patch", "", "persistentvolumes", "", true},
		{"delete", "", "persistentvolumes", "", false},
		{"delete", "etcd-operator.cozystack.io", "etcdclusters", "tenant-x", true},
		{"delete", "etcd-operator.cozystack.io", "etcdmembers", "tenant-x", false},
		{"delete", "backups.cozystack.io", "backups", "tenant-x", false},
		{"delete", "helm.toolkit.fluxcd.io", "helmreleases", "tenant-x", false},
		{"patch", "helm.toolkit.fluxcd.io", "helmreleases", "tenant-x", true},
		{"*", "*", "*", "", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + harness.SystemNamespace + ":etcd-controller",
			Groups:             []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: c.verb, Group: c.group, Resource: c.resource, Namespace: c.namespace},
		}}
		require.NoError(t, platform.Client.Create(t.Context(), review))
		require.Equal(t, c.allowed, review.Status.Allowed, "%s %s.%s in %q", c.verb, c.resource, c.group, c.namespace)
	}
}

// Every object of examples/ is accepted as it stands, without an unknown field.
func TestExamplesApply(t *testing.T) {
	require.NoError(t, platform.Env.Namespace(t.Context(), "examples"))
	files, err := filepath.Glob(filepath.Join(platform.Root, "examples", "*", "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		folder, name := filepath.Base(filepath.Dir(file)), filepath.Base(file)
		if folder == "values" {
			continue // values of a chart, which tests/conformance renders
		}
		objects, err := harness.Example(platform.Root, folder, name)
		require.NoError(t, err)
		require.NotEmpty(t, objects, file)
		for _, o := range objects {
			require.NoError(t, create(t, o), file)
		}
	}
	require.Greater(t, len(files), 8)
}

func create(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	mapping, err := platform.Client.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	o = o.DeepCopy()
	o.SetName("example-" + o.GetName()) // the shared environment has some of them under their own names
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		o.SetNamespace("examples")
	}
	return platform.Client.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}
