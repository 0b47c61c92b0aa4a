package restorejob

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// What is written between the plan and the deletion must not pass the prepared revision: a cluster that comes near it is planned for anew, with its copy
// made again, before anything is deleted.
func TestACopyThatTheLiveClusterOvertakesIsMadeAgain(t *testing.T) {
	const planned = 1000 + 1_000_000 // the live revision when it is asked first, and the slack
	for _, c := range []struct {
		name     string
		live     int64 // what was written while the copy was made
		prepared []int64
	}{
		{"far from it", planned - safeDistance, []int64{planned}},
		{"near it", planned - safeDistance + 1, []int64{planned, planned - safeDistance + 1 + 1_000_000}},
		{"past it", planned + 7, []int64{planned, planned + 7 + 1_000_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.uncovered("again")
			before, live := g.cluster().GetUID(), int64(1000)
			g.answers = func(_ string, s etcd.Status) (etcd.Status, error) {
				if s.Revision == 1000 {
					s.Revision = live
				}
				return s, nil
			}
			var prepared []int64
			g.artifacts = func(verb string) error {
				if verb == "prepare" {
					live = c.live
					prepared = append(prepared, g.proven.Revision+g.records()[0].Prepared.Bump)
					require.Equal(t, before, g.cluster().GetUID(), "nothing is deleted yet")
				}
				return nil
			}
			job := g.finish("again")
			require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
			require.Equal(t, c.prepared, prepared)
			restored := &etcdv1alpha2.EtcdCluster{}
			require.NoError(t, g.admin.Get(t.Context(), client.ObjectKey{Namespace: g.ns, Name: "etcd"}, restored))
			revision, _ := g.revisions.Load(restored.Spec.Bootstrap.Restore.Source.S3.Key)
			require.Equal(t, c.prepared[len(c.prepared)-1], revision, "it starts from the last copy")
		})
	}
}
