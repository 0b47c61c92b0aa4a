package restorejob

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// refusedLateCases are what would have refused the restore, but came up after the capture.
func refusedLateCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, reason}
	}
	return []decideCase{
		at(RowAbortParked, "parked meanwhile", Intend, ActionConclude, backupsv1alpha1.ReasonClusterParked, captured(), func(s *Seen) { s.Record.Parked = true }),
		at(RowRecapture, "parked just now: it is captured first", Intend, ActionCapture, "", captured(), func(s *Seen) { s.Cluster.Replicas, s.Cluster.Captured = 0, false }),
		at(RowReconsider, "parked just before the deletion", Intend, ActionReconsider, "", deleted(), func(s *Seen) { s.Cluster.Replicas, s.Cluster.Captured = 0, false }),
		at(RowAbortUnsafe, "C57 forced replace, meanwhile", Intend, ActionConclude, backupsv1alpha1.ReasonReleaseUnsafe, captured(), func(s *Seen) { s.Release.Unsafe = "force" }),
		at(RowAbortElsewhere, "given to a release of another namespace", Intend, ActionConclude, backupsv1alpha1.ReasonReleaseUnsafe, captured(), func(s *Seen) {
			s.Record.SuspendIntended, s.Record.HasRelease, s.Release = false, false, &ReleaseFacts{Name: "etcd", Elsewhere: "flux/etcd"}
		}),
		at(RowDelete, "a failed cluster's labels are nobody's release", Do, ActionDelete, "", returning(), func(s *Seen) {
			s.Cluster = &ClusterFacts{UID: "failed", Failed: true, Owned: true}
			s.Record.HasRelease, s.Release = false, &ReleaseFacts{Name: "etcd", Elsewhere: "flux/etcd"}
		}),
	}
}

func TestWhatWouldBeRefusedIsRefusedUntilTheDeletion(t *testing.T) {
	for _, c := range []struct {
		name, reason, message string
		change                func(g *rig)
	}{
		{"parked", backupsv1alpha1.ReasonClusterParked, "spec.replicas is 0", func(g *rig) { g.patchCluster(`{"spec":{"replicas":0}}`) }},
		{"forced upgrades", backupsv1alpha1.ReasonReleaseUnsafe, "spec.upgrade.force", func(g *rig) {
			g.patchRelease(`{"spec":{"upgrade":{"force":true,"serverSideApply":"disabled"}}}`)
		}},
		{"release of another namespace", backupsv1alpha1.ReasonReleaseUnsafe, "flux-system/tenants", func(g *rig) {
			g.patchCluster(`{"metadata":{"labels":{"helm.toolkit.fluxcd.io/name":"tenants","helm.toolkit.fluxcd.io/namespace":"flux-system"}}}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.uncovered("again")
			before := g.cluster()
			changed := false
			g.artifacts = func(verb string) error {
				if verb == "prepare" && !changed {
					changed = true
					c.change(g)
				}
				return nil
			}
			job := g.finish("again")
			require.True(t, changed)
			require.Equal(t, "True/"+c.reason, condition(job, "Stalled"))
			require.Contains(t, job.Status.Message, c.message)
			require.Contains(t, job.Status.Message, "The cluster was left as it is")
			require.Equal(t, before.GetUID(), g.cluster().GetUID())
			require.Nil(t, g.suspended())
			require.NotContains(t, g.writes, "delete EtcdCluster")
			require.Empty(t, g.records())
		})
	}
}

func refusedLate(rng *rand.Rand, r *ReleaseFacts) {
	choose(rng, &r.Unsafe, "", "force")
	choose(rng, &r.Elsewhere, "", "flux/etcd")
}
