package restorejob

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// canonical is what a restore leaves behind, without what differs between two runs: names of the namespace, identities, times and counts of writes.
func (g *rig) canonical(job string) string {
	j := g.job(job)
	state := map[string]any{"job": fmt.Sprintf("%s %v %v", j.Status.Phase, conditions(j), j.Finalizers), "records": len(g.records()), "lock": g.lease().Labels, "fence": g.lease().Annotations, "holder": g.holder()}
	for name, u := range map[string]*unstructured.Unstructured{"cluster": g.cluster(), "release": g.helmRelease()} {
		if u == nil {
			continue
		}
		state[name] = map[string]any{
			"spec": u.Object["spec"], "labels": u.GetLabels(), "annotations": slices.Sorted(maps.Keys(u.GetAnnotations())), "finalizers": u.GetFinalizers(),
			"fields": mainFields(u),
		}
	}
	raw, err := json.Marshal(state)
	require.NoError(g.t, err)
	return strings.NewReplacer(g.ns, "NS", string(j.UID), "UID", string(j.UID)[:8], "UID8", string(g.helmRelease().GetUID()), "RELEASE").Replace(string(raw))
}

// small is a tenant with one member: the steps of a restore are the same, and there are many runs.
func (g *rig) small(job string) {
	g.t.Helper()
	g.create(newRelease(), newBackup(), newJob(job))
	u := chartCluster(g.ns, true)
	require.NoError(g.t, unstructured.SetNestedField(u.Object, int64(1), "spec", "replicas"))
	g.apply(u)
	g.ops.up()
}

// killPoints are the writes after which the controller dies: all of them with CRASH_REPLAY, else a sample that CRASH_SEED (default 1) draws.
func killPoints(t *testing.T, from, to int) []int {
	t.Helper()
	const sample = 8
	var all []int
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	if os.Getenv("CRASH_REPLAY") != "" || len(all) <= sample {
		return all
	}
	seed := uint64(1)
	if s := os.Getenv("CRASH_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // the same each time
	return all[:sample]
}

// TestC62KilledAfterEachWrite lets the controller die after each of its writes in turn. However it dies, the restore ends as if it had not.
func TestC62KilledAfterEachWrite(t *testing.T) {
	t.Parallel()
	undisturbed := newRig(t)
	undisturbed.small("again")
	require.Equal(t, okPhase, undisturbed.finish("again").Status.Phase)
	want := undisturbed.canonical("again")
	writes := undisturbed.writes
	require.Contains(t, writes, "delete EtcdCluster")
	require.Contains(t, writes, "create EtcdCluster")
	for _, n := range killPoints(t, 0, len(writes)) {
		t.Run(fmt.Sprintf("%02d %s", n+1, writes[n]), func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.small("again")
			g.killAt = n + 1
			require.Equal(t, okPhase, g.finish("again").Status.Phase)
			require.JSONEq(t, want, g.canonical("again"))
			for _, once := range []string{"delete EtcdCluster", "create EtcdCluster"} {
				require.Equal(t, 1, count(g.writes, once), "%s happens once: %q", once, g.writes)
			}
		})
	}
}

// The same where the restore fails for good, and where the job is deleted in the middle.
func TestC62KilledAfterEachWriteOfAFailure(t *testing.T) {
	t.Parallel()
	fails := func(g *rig) string {
		g.small("again")
		g.ops.off = true
		g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Whole") != "" })
		g.ops.off, g.ops.bootstrapFails = false, true
		require.Equal(g.t, badPhase, g.finish("again").Status.Phase)
		return g.canonical("again")
	}
	undisturbed := newRig(t)
	want := fails(undisturbed)
	start := slices.Index(undisturbed.writes, "create EtcdCluster")
	for _, n := range killPoints(t, start, len(undisturbed.writes)) {
		t.Run(fmt.Sprintf("%02d %s", n+1, undisturbed.writes[n]), func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.killAt = n + 1
			require.JSONEq(t, want, fails(g))
		})
	}
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
