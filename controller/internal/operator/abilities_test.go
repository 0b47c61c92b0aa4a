package operator

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shelf is a double of the API server's reads: it has one Deployment, or fails.
type shelf struct {
	client.Reader
	containers []corev1.Container
	err        error
}

func (s shelf) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if d, ok := o.(*appsv1.Deployment); ok {
		d.Spec.Template.Spec.Containers = s.containers
	}
	return s.err
}

func TestMinorsComeFromTheImagesTag(t *testing.T) {
	otherwise := []string{"9.9"}
	for image, want := range map[string][]string{
		"ghcr.io/cozystack/etcd-operator:v0.5.4":            minorsCompiledIn,
		"ghcr.io/cozystack/etcd-operator:0.5.9":             minorsCompiledIn,
		"ghcr.io/cozystack/etcd-operator:v0.6.0-rc.1":       minorsCompiledIn,
		"ghcr.io/cozystack/etcd-operator:v0.6.0":            minorsOfImages,
		"ghcr.io/cozystack/etcd-operator:v1.0.0@sha256:abc": minorsOfImages,
		"localhost:5000/etcd-operator":                      otherwise,
		"localhost:5000/etcd-operator:latest":               otherwise,
		"docker.io/local/etcd-operator:1":                   otherwise,
		"ghcr.io/cozystack/etcd-operator@sha256:abc":        otherwise,
		"": otherwise,
	} {
		a := Abilities{Reader: shelf{containers: []corev1.Container{{Image: image}}}, Deployment: types.NamespacedName{Namespace: "n", Name: "o"}, Otherwise: otherwise}
		got, err := a.Minors(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got, image)
	}
}

func TestTheOperatorsOwnContainerCounts(t *testing.T) {
	require.Equal(t, "v0.5.4", tag([]corev1.Container{{Image: "proxy:v9.0.0"}, {Image: "r/etcd-operator:v0.5.4"}}))
	require.Empty(t, tag(nil))
}

func TestWhereNobodyTellsTheFlagDoes(t *testing.T) {
	a := Abilities{Otherwise: []string{"3.6"}}
	got, err := a.Minors(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"3.6"}, got)

	a.Deployment = types.NamespacedName{Namespace: "n", Name: "o"}
	a.Reader = shelf{err: apierrors.NewNotFound(schema.GroupResource{Resource: "deployments"}, "o")}
	got, err = a.Minors(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"3.6"}, got)

	a.Reader = shelf{err: errors.New("no answer")}
	_, err = a.Minors(t.Context())
	require.ErrorContains(t, err, "n/o: no answer", "an operator that cannot be asked is not taken for an able one")
}

func TestParseDeployment(t *testing.T) {
	got, err := ParseDeployment("cozy-etcd-operator/etcd-operator")
	require.NoError(t, err)
	require.Equal(t, types.NamespacedName{Namespace: "cozy-etcd-operator", Name: "etcd-operator"}, got)
	for _, bad := range []string{"x", "/x", "x/", "a/b/c"} {
		_, err := ParseDeployment(bad)
		require.ErrorContains(t, err, bad)
	}
}
