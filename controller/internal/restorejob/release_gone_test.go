package restorejob

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// blind makes one pass while the API server does not serve HelmReleases.
func (g *rig) blind(job string, missing error) error {
	r := g.reconciler()
	r.Reader = interceptor.NewClient(g.admin, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "HelmRelease" {
				return missing
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	_, err := r.Reconcile(g.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: g.ns, Name: job}})
	return err
}

func TestAKindThatIsNotServedIsNoReleaseThatIsGone(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	kind := schema.GroupKind{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}
	resource := schema.GroupResource{Group: kind.Group, Resource: "helmreleases"}
	for _, missing := range []error{
		&meta.NoKindMatchError{GroupKind: kind},
		apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "etcd", "404 page not found", 0, true),
	} {
		require.ErrorContains(t, g.blind("again", missing), "read the HelmRelease")
		require.Nil(t, g.records()[0].Outcome)
	}
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}
