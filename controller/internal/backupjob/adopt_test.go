package backupjob

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// blind is a cache that does not know of snapshots or Backups yet.
func blind(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch o.(type) {
			case *etcdv1alpha2.EtcdSnapshot, *backupsv1alpha1.Backup:
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// C61: the cache does not show the snapshot that a former pass made: it is met on the API server, and is ours.
func TestC61SnapshotThatTheCacheDoesNotShow(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.pass(j)
	s.pass(j)
	uid := s.snapshot(j).UID
	require.NotEmpty(t, uid)
	s.r = s.reconciler(blind(platform(t).Client))
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonSnapshotRunning, "")
	require.Equal(t, uid, s.snapshot(j).UID)

	j.Status.Conditions = nil // the status of the pass that made it was lost
	require.NoError(t, s.Status().Update(t.Context(), j))
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonSnapshotRunning, "")
	require.Equal(t, uid, s.snapshot(j).UID)
	s.complete(s.snapshot(j))
	s.pass(j)
	s.r = s.reconciler(platform(t).Client)
	s.rest(j)
	s.requireSucceeded(j)
}

// C61: the same, and it is somebody else's.
func TestC61ForeignObjectsThatTheCacheDoesNotShow(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.pass(j)
	foreign, err := backupstrategy.NewSnapshot(backupstrategy.SnapshotRequest{Job: j, Cluster: "other", Destination: backupstrategy.Destination{
		Endpoint: "https://evil.example", Bucket: "other", CredentialsSecretName: "x"}})
	require.NoError(t, err)
	foreign.OwnerReferences = nil
	s.create(foreign)
	s.r = s.reconciler(blind(platform(t).Client))
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonSnapshotForeign, foreign.Name)

	other := s.job("other")
	s.rest(other)
	taken := &backupsv1alpha1.Backup{}
	taken.Namespace, taken.Name = s.namespace, "other"
	taken.Spec.ApplicationRef, taken.Spec.StrategyRef = other.Spec.ApplicationRef, backupstrategy.StrategyRef("x")
	taken.Spec.TakenAt = other.CreationTimestamp
	s.create(taken)
	s.complete(s.snapshot(other))
	s.rest(other)
	s.requireFailed(other, backupsv1alpha1.ReasonBackupExists, `"other"`)
	require.Empty(t, s.backup("other").Status.Phase)
}

// C17f: an error while the snapshot of a failed run is removed does not bring the run back to life.
func TestC17fErrorWhileCleaningUp(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.rest(j)
	s.now = j.Status.StartedAt.Add(DefaultDeadline)
	s.pass(j)
	failed := j.DeepCopy()
	s.r = s.reconciler(interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return errKilled },
	}))
	_, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
	require.ErrorIs(t, err, errKilled, "it is tried again")
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(j), j))
	require.Equal(t, failed.Status, j.Status)
}
