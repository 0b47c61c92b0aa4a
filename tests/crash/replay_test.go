package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

var (
	platform *harness.Platform
	journal  = &Journal{}
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	e, err := env.Start(ctx, env.Options{Name: "crash"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer e.Stop()
	store, err := NewStore(e.S3.Endpoint, journal)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer store.Close()
	if platform, err = harness.Prepare(ctx, e); err == nil {
		err = platform.InstallBackupClassAt(ctx, store.URL)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// A backup that is disturbed at any write ends like one that is not: one EtcdSnapshot, one Backup, one object.
func TestBackupDisturbedAtEachWrite(t *testing.T) { replay(t, backup, 2) }

// A restore that is disturbed at any write ends like one that is not.
func TestRestoreDisturbedAtEachWrite(t *testing.T) { replay(t, restore, 4) }

// So does one whose RestoreJob is deleted before the cluster is.
func TestAbortDisturbedAtEachWrite(t *testing.T) { replay(t, abort, 1) }

// And one whose RestoreJob is deleted after the cluster is.
func TestDeletedRestoreDisturbedAtEachWrite(t *testing.T) { replay(t, deleted, 1) }

// A restore that fails and goes back is disturbed at any write, and the state before comes back all the same.
func TestRollbackDisturbedAtEachWrite(t *testing.T) { replay(t, rollback, 1) }

// Caches that are behind change nothing, nor do conflicts at every other write of a status. CRASH_REPLAY has all dramas of a restore played that way.
func TestRestoreWithStaleCachesAndConflicts(t *testing.T) {
	dramas := []drama{restore}
	if everyWrite() {
		dramas = append(dramas, abort, deleted, rollback)
	}
	for _, d := range dramas {
		want := undisturbed(t, d)
		for _, how := range []disturbance{{lag: 1500 * time.Millisecond}, {conflicts: true}} {
			t.Run(d.name+" "+how.name(), func(t *testing.T) { requireEqual(t, want, play(t, platform, d, how)) })
		}
	}
}

func everyWrite() bool { return os.Getenv("CRASH_REPLAY") != "" }

var ends = map[string]outcome{}

// undisturbed is the end that all others must have, played once for all tests of a drama.
func undisturbed(t *testing.T, d drama) outcome {
	t.Helper()
	if _, ok := ends[d.name]; !ok {
		ends[d.name] = play(t, platform, d, disturbance{})
		require.NotEmpty(t, ends[d.name].writes)
	}
	return ends[d.name]
}

// replay compares disturbed runs with an undisturbed one. CRASH_REPLAY=all disturbs every write in every mode, CRASH_REPLAY=kill only kills after every
// write; otherwise a sample is drawn with CRASH_SEED (default 1).
func replay(t *testing.T, d drama, sample int) {
	want := undisturbed(t, d)
	gone, kills, runs := whileGone(want.writes), 0, 0
	all := disturbances(t, want.writes, sample)
	for _, how := range all {
		t.Run(fmt.Sprintf("%s %02d %s", how.mode, how.n, how.at.Write), func(t *testing.T) {
			runs++
			for attempt := range 3 {
				got := play(t, platform, d, how)
				requireEqual(t, want, got)
				if journal.Disturbed() {
					if how.mode == Kill && gone[how.n] {
						kills++
					}
					return
				}
				t.Logf("attempt %d had no such write: %v", attempt+1, got.writes)
			}
			// Two changes of a status become one write where they come close together, so a run may have fewer of these; every other write must come.
			if strings.HasSuffix(how.at.Write, "/status") {
				t.Log("no run but the undisturbed one wrote this status that often: there is no such point")
				return
			}
			t.Fatal("the write that is to be disturbed did not come")
		})
	}
	t.Log("\n" + table(d.name, want.writes))
	if d.name != restore.name {
		return
	}
	require.GreaterOrEqual(t, len(gone), 3, "writes from the cluster's deletion to its creation, the deletion itself included")
	if everyWrite() && runs == len(all) { // -run may choose one
		require.GreaterOrEqual(t, kills, 3, "kills that did happen there")
	}
}

func requireEqual(t *testing.T, want, got outcome) {
	t.Helper()
	require.Empty(t, want.keys.Diff(got.keys), "keys")
	require.Equal(t, want.stored, got.stored, "objects in S3")
	require.Empty(t, Difference(want.objects, got.objects), "objects in the API")
}

func disturbances(t *testing.T, writes []string, sample int) []disturbance {
	t.Helper()
	modes := []Mode{Kill, Lose, Refuse}
	if os.Getenv("CRASH_REPLAY") == "kill" {
		modes = modes[:1]
	}
	var all []disturbance
	for _, mode := range modes {
		seen := map[string]int{}
		for i, write := range writes {
			seen[write]++
			all = append(all, disturbance{mode: mode, at: Point{Write: write, Nth: seen[write]}, n: i + 1})
		}
	}
	if everyWrite() {
		return all
	}
	seed := uint64(1)
	if s := os.Getenv("CRASH_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	chosen := all[:min(sample, len(all))]
	slices.SortFunc(chosen, func(a, b disturbance) int { return a.n - b.n })
	return chosen
}

// whileGone are the numbers of the writes from a deletion of the cluster on, itself included, up to its creation: whoever is killed after one of these leaves
// a tenant without an etcd.
func whileGone(writes []string) map[int]bool {
	gone, between := map[int]bool{}, false
	for i, w := range writes {
		switch {
		case strings.HasPrefix(w, "DELETE etcdclusters"):
			between = true
		case strings.HasPrefix(w, "POST etcdclusters"):
			between = false
		}
		if between {
			gone[i+1] = true
		}
	}
	return gone
}

// table lists the writes and marks those after which the cluster is deleted and not yet created again.
func table(job string, writes []string) string {
	var b strings.Builder
	gone := whileGone(writes)
	for i, w := range writes {
		mark := ""
		if gone[i+1] {
			mark = "  between delete and create"
		}
		fmt.Fprintf(&b, "%s %2d  %s%s\n", job, i+1, w, mark)
	}
	if job != backup.name {
		fmt.Fprintf(&b, "kill points between delete and create, the deletion included: %d\n", len(gone))
	}
	return b.String()
}
