package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOurCRDsRefuseBadEdits(t *testing.T)      { refusesBadEdits(t, shared(t, ourCRDs()...)) }
func TestOurCRDsAcceptGoodEdits(t *testing.T)     { acceptsGoodEdits(t, shared(t, ourCRDs()...)) }
func TestOurCRDsAcceptWhatWeWrite(t *testing.T)   { acceptsWhatWeWrite(t, shared(t, ourCRDs()...)) }
func TestOurCRDsSelectByApplication(t *testing.T) { selectsByApplication(t, shared(t, ourCRDs()...)) }

func TestOurCRDsAcceptOurReasons(t *testing.T) { acceptsOurReasons(t, shared(t, ourCRDs()...)) }

func TestUpstreamRefusesBadEdits(t *testing.T)  { refusesBadEdits(t, shared(t, upstreamCRDs(t))) }
func TestUpstreamAcceptsGoodEdits(t *testing.T) { acceptsGoodEdits(t, shared(t, upstreamCRDs(t))) }
func TestUpstreamAcceptsWhatWeWrite(t *testing.T) {
	acceptsWhatWeWrite(t, shared(t, upstreamCRDs(t)))
}
func TestUpstreamAcceptsOurReasons(t *testing.T) { acceptsOurReasons(t, shared(t, upstreamCRDs(t))) }
func TestUpstreamSelectsByApplication(t *testing.T) {
	selectsByApplication(t, shared(t, upstreamCRDs(t)))
}

func refusesBadEdits(t *testing.T, s *server) {
	require.GreaterOrEqual(t, len(badEdits), 30)
	for _, e := range badEdits {
		t.Run(e.name, func(t *testing.T) {
			_, err := s.apply(t, e)
			require.Error(t, err, "accepted")
			require.True(t, refused(err), "%v", err)
		})
	}
}

func acceptsGoodEdits(t *testing.T, s *server) {
	for _, e := range goodEdits {
		t.Run(e.name, func(t *testing.T) {
			_, err := s.apply(t, e)
			require.NoError(t, err)
		})
	}
}

// elsewhere are groups whose CRDs belong to neither side of the comparison.
var elsewhere = []string{"cert-manager.io", "monitoring.coreos.com", "operator.victoriametrics.com", "autoscaling.k8s.io"}

func acceptsWhatWeWrite(t *testing.T, s *server) {
	for _, w := range written(t) {
		t.Run(w.from, func(t *testing.T) {
			obj := w.obj.DeepCopy()
			namespaced, err := s.client.IsObjectNamespaced(obj)
			if meta.IsNoMatchError(err) {
				require.Contains(t, elsewhere, obj.GroupVersionKind().Group)
				return
			}
			require.NoError(t, err)
			if obj.GetKind() == "CustomResourceDefinition" {
				return
			}
			if namespaced {
				obj.SetNamespace("default")
			}
			require.NoError(t, s.client.Create(t.Context(), obj, client.DryRunAll))
		})
	}
}

func selectsByApplication(t *testing.T, s *server) {
	for _, base := range []string{"job", "backup", "plan"} {
		t.Run(base, func(t *testing.T) {
			obj := s.fresh(t, bases(t)[base])
			app := "app-" + obj.GetName()
			require.NoError(t, unstructured.SetNestedField(obj.Object, app, "spec", "applicationRef", "name"))
			require.NoError(t, s.client.Create(t.Context(), obj))
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(obj.GroupVersionKind())
			require.NoError(t, s.client.List(t.Context(), list, client.MatchingFields{
				"spec.applicationRef.apiGroup": "apps.cozystack.io", "spec.applicationRef.kind": "Etcd", "spec.applicationRef.name": app,
			}))
			require.Len(t, list.Items, 1)
			require.Equal(t, obj.GetName(), list.Items[0].GetName())
		})
	}
}

// TestBothStoreTheSame compares what is stored after each good edit: defaults and dropped fields would show here.
func TestBothStoreTheSame(t *testing.T) {
	theirs, ours := shared(t, upstreamCRDs(t)), shared(t, ourCRDs()...)
	for _, e := range goodEdits {
		if partial(bases(t)[e.base].GetKind()) {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			want, err := theirs.apply(t, e)
			require.NoError(t, err)
			got, err := ours.apply(t, e)
			require.NoError(t, err)
			require.Equal(t, content(want), content(got))
		})
	}
}

// partial tells of a mirror that types only what somebody here reads; the platform adds defaults of its own there.
func partial(kind string) bool { return kind == "HelmRelease" || kind == "TenantControlPlane" }

// content is an object without what the server sets.
func content(obj *unstructured.Unstructured) map[string]any {
	return map[string]any{"spec": obj.Object["spec"], "status": obj.Object["status"], "labels": obj.GetLabels(), "generation": obj.GetGeneration()}
}
