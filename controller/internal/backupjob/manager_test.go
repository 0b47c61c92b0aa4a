package backupjob

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	"github.com/cozy-etcd/cozy-etcd/controller/api"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

// Everything that a run waits for wakes it up: no timer takes part, or the test would take longer than its patience.
func TestWatchesWakeTheRun(t *testing.T) {
	s := newStage(t)
	mgr, err := ctrl.NewManager(platform(t).Config, ctrl.Options{Scheme: api.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	wrapped := false
	leases, err := lock.NewCache(mgr)
	require.NoError(t, err)
	r := &Reconciler{
		Leases: leases, Locks: &lock.Store{Client: mgr.GetClient(), Leases: leases, Live: mgr.GetAPIReader(), Cached: mgr.GetClient(), Now: time.Now},
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("etcd-controller"), Etcd: answering{}, Now: time.Now, Concurrency: 2,
		MaxRunning: 1 + s.running(),
		Wrap:       func(inner reconcile.Reconciler) reconcile.Reconciler { wrapped = true; return inner },
	}
	require.NoError(t, r.SetupWithManager(mgr))
	require.True(t, wrapped)
	require.True(t, r.flux)
	require.False(t, r.apps)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); <-done })

	strategy, class := s.strategyObject(), s.classObject(backupstrategy.StrategyRef(s.class))
	require.NoError(t, s.Delete(ctx, strategy))
	require.NoError(t, s.Delete(ctx, class))
	for _, name := range []string{"etcd-1", "etcd-2"} {
		s.setMember(s.getMember(name), false, true)
	}
	j := s.job("nightly")
	s.await(j, backupsv1alpha1.ReasonWaitingForBackupClass)
	s.create(s.classObject(backupstrategy.StrategyRef(s.class)))
	s.await(j, backupsv1alpha1.ReasonWaitingForStrategy)
	s.create(s.strategyObject())
	s.await(j, backupsv1alpha1.ReasonWaitingForQuorum)

	restore := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "back"}}
	restore.Spec.BackupRef = corev1.LocalObjectReference{Name: "x"}
	s.create(restore)
	held, err := s.r.Locks.Get(ctx, s.namespace, "etcd")
	require.NoError(t, err)
	held.Take(lock.RestoreClaim(restore))
	require.NoError(t, s.r.Locks.Save(ctx, held))
	s.setMember(s.getMember("etcd-1"), true, true)
	s.await(j, backupsv1alpha1.ReasonWaitingForLock)
	held.Release()
	require.NoError(t, s.r.Locks.Save(ctx, held))
	s.await(j, backupsv1alpha1.ReasonSnapshotRunning)

	elsewhere := newStage(t)
	other := elsewhere.job("other")
	elsewhere.await(other, backupsv1alpha1.ReasonWaitingForSlot)
	s.complete(s.snapshot(j))
	s.await(j, backupsv1alpha1.ReasonSucceeded)
	s.requireSucceeded(j)
	elsewhere.await(other, backupsv1alpha1.ReasonSnapshotRunning)
	elsewhere.phase(elsewhere.snapshot(other), etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed, "no luck")
	elsewhere.await(other, backupsv1alpha1.ReasonSnapshotFailed)
}

// await waits for a reason of Ready, for less than any timer of the reconciler.
func (s *stage) await(j *backupsv1alpha1.BackupJob, reason string) {
	s.Helper()
	require.Eventually(s, func() bool {
		require.NoError(s, s.Get(s.Context(), client.ObjectKeyFromObject(j), j))
		return readyReason(j) == reason
	}, 10*time.Second, 20*time.Millisecond, "waiting for %s", reason)
}
