package backupjob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

func (s *stage) lease() *coordinationv1.Lease {
	s.Helper()
	o := &coordinationv1.Lease{}
	require.NoError(s, client.IgnoreNotFound(s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: lock.Name("etcd")}, o)))
	return o
}

func (s *stage) holder() string {
	s.Helper()
	if h := lock.HolderOf(s.lease()); h != nil {
		return h.Name
	}
	return ""
}

// requireQueued tells a job that waits for the lock before its start: no deadline runs.
func (s *stage) requireQueued(j *backupsv1alpha1.BackupJob, says string) {
	s.Helper()
	require.Equal(s, backupsv1alpha1.ReasonWaitingForLock, s.ready(j).Reason)
	require.Contains(s, j.Status.Message, says)
	require.Equal(s, backupsv1alpha1.BackupJobPending, j.Status.Phase)
	require.Nil(s, j.Status.StartedAt)
}

func TestC46OneAtATimeForAnApplication(t *testing.T) {
	s := newStage(t)
	first, second := s.job("first"), s.job("second")
	s.rest(first)
	require.Equal(t, "first", s.holder())
	s.rest(second)
	s.requireQueued(second, `BackupJob "first"`)
	s.complete(s.snapshot(first))
	s.rest(first)
	s.requireSucceeded(first)
	require.Equal(t, "first", s.holder(), "a holder that is over keeps nobody, so it costs no write to say so")
	s.rest(second)
	s.requireWaiting(second, backupsv1alpha1.ReasonSnapshotRunning, "")
	require.Equal(t, "second", s.holder())
}

// A run that has started and comes too late for the lock waits on its own time, and does not keep the lock while it waits for anything else.
func TestC33TheLockIsTakenWithTheSnapshotOnly(t *testing.T) {
	s := newStage(t)
	require.NoError(t, s.Delete(t.Context(), s.credentials()))
	first, second := s.job("first"), s.job("second")
	s.rest(first)
	s.requireWaiting(first, backupsv1alpha1.ReasonWaitingForCredentials, "")
	require.Empty(t, s.holder())
	s.rest(second)
	s.create(s.credentials())
	s.rest(second)
	s.rest(first)
	s.requireWaiting(first, backupsv1alpha1.ReasonWaitingForLock, `BackupJob "second"`)
	require.NoError(t, s.Delete(t.Context(), second))
	s.rest(first)
	s.requireWaiting(first, backupsv1alpha1.ReasonSnapshotRunning, "")
	require.Equal(t, "first", s.holder(), "a holder that is gone is passed over")
}

func TestC33QueueLimit(t *testing.T) {
	s := newStage(t)
	first, second := s.job("first"), s.job("second")
	s.rest(first)
	s.now = s.now.Add(lock.DefaultQueueLimit - time.Second)
	s.rest(second)
	s.requireQueued(second, `BackupJob "first"`)
	s.now = s.now.Add(2 * time.Second)
	s.rest(second)
	s.requireFailed(second, backupsv1alpha1.ReasonQueueLimitExceeded, `within 24h0m0s: BackupJob "first"`)
	require.Nil(t, second.Status.StartedAt)
	require.Equal(t, "first", s.holder())
}

// C61: a cache that does not show who has the lock costs a conflict, not a second snapshot.
func TestC33TheLockIsTakenAgainstAStaleCache(t *testing.T) {
	s := newStage(t)
	first, second := s.job("first"), s.job("second")
	s.pass(first)
	s.pass(second) // both have started
	s.rest(first)
	s.r.Locks.Leases = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, "lease")
		},
	})
	require.Equal(t, afterConflict, s.pass(second).RequeueAfter)
	require.Len(t, s.snapshots(), 1)
	require.Equal(t, "first", s.holder())
}

// A snapshot that cannot be created leaves the lock to others.
func TestARefusedSnapshotGivesTheLockBack(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.pass(j)
	s.r.Client = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*etcdv1alpha2.EtcdSnapshot); ok {
				return apierrors.NewInternalError(errors.New("webhook"))
			}
			return c.Create(ctx, o, opts...)
		},
	})
	_, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
	require.ErrorContains(t, err, "webhook")
	require.NotEmpty(t, s.lease().Name)
	require.Empty(t, s.holder())
}

func TestRestoreGoesFirst(t *testing.T) {
	s := newStage(t)
	group := "apps.cozystack.io"
	backup := &backupsv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "x"}}
	backup.Spec.ApplicationRef = corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "Etcd", Name: "etcd"}
	backup.Spec.StrategyRef = backupstrategy.StrategyRef(s.class)
	backup.Spec.TakenAt = metav1.Now()
	s.create(backup)
	restore := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "back"}}
	restore.Spec.BackupRef.Name = "x"
	s.create(restore)
	j := s.job("nightly")
	s.rest(j)
	s.requireQueued(j, `RestoreJob "back"`)
	restore.Status.StartedAt = &metav1.Time{Time: s.now}
	require.NoError(t, s.Status().Update(t.Context(), restore))
	s.rest(j)
	s.requireQueued(j, `RestoreJob "back"`)
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
			_, ok, err := s.reserve(types.NamespacedName{Namespace: fmt.Sprintf("t-%d", i), Name: "x"}, 10, now, behind)
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
		o.Status.Phase = phase
		return o
	}
	list := func(all ...etcdv1alpha2.EtcdSnapshot) func() ([]etcdv1alpha2.EtcdSnapshot, error) {
		return func() ([]etcdv1alpha2.EtcdSnapshot, error) { return all, nil }
	}
	_, ok, _ := s.reserve(name("a"), 2, now, list())
	require.True(t, ok)
	_, ok, _ = s.reserve(name("a"), 2, now, list())
	require.True(t, ok, "a repeated pass keeps its slot")
	_, ok, _ = s.reserve(name("b"), 2, now, list(of("a", "")))
	require.True(t, ok, "the cache shows a: it counts once")
	_, ok, _ = s.reserve(name("c"), 2, now, list(of("a", "")))
	require.False(t, ok)
	s.release(name("b"))
	_, ok, _ = s.reserve(name("c"), 2, now, list(of("a", etcdv1alpha2.SnapshotComplete)))
	require.True(t, ok)
	require.Equal(t, 1, s.look(name("x"), nil, now))
	require.Equal(t, 0, s.look(name("x"), nil, now.Add(2*forgetAfter)), "a snapshot that never shows up is forgotten")
}
