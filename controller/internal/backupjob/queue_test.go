package backupjob

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func TestC46OneAtATimeForAnApplication(t *testing.T) {
	s := newStage(t)
	first, second := s.job("first"), s.job("second")
	s.rest(first)
	s.rest(second)
	s.requireWaiting(second, backupsv1alpha1.ReasonWaitingForOtherRun, s.snapshot(first).Name)
	s.complete(s.snapshot(first))
	s.rest(first)
	s.rest(second)
	s.requireWaiting(second, backupsv1alpha1.ReasonSnapshotRunning, "")
}

func TestRestoreGoesFirst(t *testing.T) {
	s := newStage(t)
	restore := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "back"}}
	restore.Spec.BackupRef.Name = "x"
	s.create(restore)
	restore.Status.StartedAt = &metav1.Time{Time: s.now}
	require.NoError(t, s.Status().Update(t.Context(), restore))
	j := s.job("nightly")
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForOtherRun, `RestoreJob "back"`)
	restore.Status.Phase = backupsv1alpha1.RestoreJobFailed
	require.NoError(t, s.Status().Update(t.Context(), restore))
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonSnapshotRunning, "")
}

func TestC46LimitOverAllNamespaces(t *testing.T) {
	one, two := newStage(t), newStage(t)
	two.r = one.r
	one.r.MaxRunning = 1 + one.running()
	first, second := one.job("first"), two.job("second")
	one.rest(first)
	two.rest(second)
	two.requireWaiting(second, backupsv1alpha1.ReasonWaitingForSlot, "at most")
	one.complete(one.snapshot(first))
	two.rest(second)
	two.requireWaiting(second, backupsv1alpha1.ReasonSnapshotRunning, "")
}

// running counts what other tests left under way.
func (s *stage) running() int {
	s.Helper()
	list, err := s.r.snapshots(s.Context())
	require.NoError(s, err)
	n := 0
	for i := range list {
		if underWay(&list[i]) {
			n++
		}
	}
	return n
}

// C46: 300 jobs that start in the same instant, before the cache shows any of their snapshots.
func TestC46SlotsHoldTheLimitWhileTheCacheIsBehind(t *testing.T) {
	var s slots
	now := time.Now()
	behind := func() ([]etcdv1alpha2.EtcdSnapshot, error) { return nil, nil }
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 300 {
		wg.Go(func() {
			_, ok, err := s.reserve(types.NamespacedName{Namespace: fmt.Sprintf("t-%d", i), Name: "x"}, "etcd", 10, now, behind)
			if err == nil && ok {
				mu.Lock()
				granted++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 10, granted)
}

func TestSlots(t *testing.T) {
	var s slots
	now := time.Now()
	name := func(n string) types.NamespacedName { return types.NamespacedName{Namespace: "t", Name: n} }
	of := func(n string, phase etcdv1alpha2.EtcdSnapshotPhase) etcdv1alpha2.EtcdSnapshot {
		o := etcdv1alpha2.EtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: n}}
		o.Spec.ClusterRef.Name, o.Status.Phase = n, phase
		return o
	}
	list := func(all ...etcdv1alpha2.EtcdSnapshot) func() ([]etcdv1alpha2.EtcdSnapshot, error) {
		return func() ([]etcdv1alpha2.EtcdSnapshot, error) { return all, nil }
	}
	_, ok, _ := s.reserve(name("a"), "a", 2, now, list())
	require.True(t, ok)
	_, ok, _ = s.reserve(name("a"), "a", 2, now, list())
	require.True(t, ok, "a repeated pass keeps its slot")
	v, ok, _ := s.reserve(name("a2"), "a", 2, now, list())
	require.False(t, ok, "one at a time for a cluster")
	require.Contains(t, v.rival, `"a"`)
	_, ok, _ = s.reserve(name("b"), "b", 2, now, list(of("a", "")))
	require.True(t, ok, "the cache shows a: it counts once")
	_, ok, _ = s.reserve(name("c"), "c", 2, now, list(of("a", "")))
	require.False(t, ok)
	s.release(name("b"))
	_, ok, _ = s.reserve(name("c"), "c", 2, now, list(of("a", etcdv1alpha2.SnapshotComplete)))
	require.True(t, ok)
	require.Equal(t, 1, s.look(name("x"), "x", nil, now).running)
	require.Equal(t, 0, s.look(name("x"), "x", nil, now.Add(2*forgetAfter)).running, "a snapshot that never shows up is forgotten")
}
