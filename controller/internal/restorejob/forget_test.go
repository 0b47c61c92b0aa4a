package restorejob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

func (g *rig) copies() []any {
	var keys []any
	g.stored.Range(func(key, _ any) bool { keys = append(keys, key); return true })
	return keys
}

// A restore of a live cluster does not need the spec that an earlier one kept; once it has succeeded, nobody may take that spec for the newest.
func TestASuccessForgetsWhatEarlierRestoresKept(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.uncovered("first")
	g.ops.bootstrapFails = true
	require.Equal(t, badPhase, g.finish("first").Status.Phase)
	require.Len(t, g.records(), 1)
	require.Len(t, g.copies(), 1, "a seed may still read it")

	g.ops.bootstrapFails = false
	require.NoError(t, g.admin.Delete(t.Context(), g.cluster()))
	require.NoError(t, g.admin.Delete(t.Context(), g.lease()))
	g.await(func() bool { return g.cluster() == nil && g.createEmpty() == nil })
	g.apply(chartCluster(g.ns, true))
	g.ops.up()
	g.create(newJob("then"))
	job := g.finish("then")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Contains(t, messageOf(job, "Captured"), "LiveCluster")
	require.Empty(t, g.records())
	require.Empty(t, g.copies())
}

func TestACopyThatASeedMayStillReadIsNamed(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Deleted") != "" })
	g.ops.off = true
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool {
		return g.cluster() != nil && has(g.cluster(), "spec", "bootstrap")
	})
	require.NoError(t, g.admin.Delete(t.Context(), g.helmRelease()))
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonAborted, condition(job, "Stalled"))
	require.Len(t, g.copies(), 1)
	require.Empty(t, g.records())
	left := ""
	for len(g.events.Events) > 0 {
		if e := <-g.events.Events; strings.Contains(e, backupsv1alpha1.ReasonPreparedObjectLeft) {
			left = e
		}
	}
	require.Contains(t, left, g.copies()[0])
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
}
