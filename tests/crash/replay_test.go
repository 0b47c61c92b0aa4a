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

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

var platform *harness.Platform

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
	if platform, err = harness.Prepare(ctx, e); err == nil {
		err = platform.InstallBackupClass(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// A backup that is killed after any write ends like one that is not: one EtcdSnapshot, one Backup, one object.
func TestBackupKilledAfterEachWrite(t *testing.T) { replay(t, "backup", 2) }

// A restore that is killed after any write ends like one that is not.
func TestRestoreKilledAfterEachWrite(t *testing.T) { replay(t, "restore", 3) }

// replay compares kills with an undisturbed run. CRASH_REPLAY=all kills after every write; otherwise a sample is drawn with CRASH_SEED (default 1).
func replay(t *testing.T, job string, sample int) {
	want := play(t, platform, job, 0)
	require.NotEmpty(t, want.writes)
	for _, n := range points(t, len(want.writes), sample) {
		t.Run(fmt.Sprintf("%02d", n), func(t *testing.T) {
			got := play(t, platform, job, n)
			t.Logf("killed after write %d of %d: %s", n, len(want.writes), want.writes[n-1])
			require.Empty(t, want.keys.Diff(got.keys), "keys")
			require.Equal(t, want.stored, got.stored, "objects in S3")
			require.Empty(t, Difference(want.objects, got.objects), "objects in the API")
		})
	}
	t.Log("\n" + table(job, want.writes))
}

func points(t *testing.T, writes, sample int) []int {
	t.Helper()
	all := make([]int, writes)
	for i := range all {
		all[i] = i + 1
	}
	if os.Getenv("CRASH_REPLAY") == "all" || writes <= sample {
		return all
	}
	seed := uint64(1)
	if s := os.Getenv("CRASH_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	chosen := all[:sample]
	slices.Sort(chosen)
	return chosen
}

// table lists the writes and marks those after which the cluster is deleted and not yet created again.
func table(job string, writes []string) string {
	var b strings.Builder
	between, kills := false, 0
	for i, w := range writes {
		if strings.HasPrefix(w, "DELETE etcdclusters") {
			between = true
		} else if strings.HasPrefix(w, "POST etcdclusters") {
			between = false
		}
		mark := ""
		if between {
			mark, kills = "  between delete and create", kills+1
		}
		fmt.Fprintf(&b, "%s %2d  %s%s\n", job, i+1, w, mark)
	}
	if job == "restore" {
		fmt.Fprintf(&b, "kill points between delete and create: %d\n", kills)
	}
	return b.String()
}
