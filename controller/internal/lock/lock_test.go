package lock

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// A fake client is enough here: of the API server's behaviour only the resource version counts. The reconcilers' tests use a real one.
func newStore(objects ...client.Object) *Store {
	c := fake.NewClientBuilder().WithScheme(api.NewScheme()).WithObjects(objects...).WithStatusSubresource(&backupsv1alpha1.RestoreJob{}).Build()
	return &Store{Client: c, Leases: c, Live: c, Now: func() time.Time { return noon }}
}

func read(t *testing.T, s *Store) *Lock {
	t.Helper()
	l, err := s.Get(t.Context(), "tenant", "etcd")
	require.NoError(t, err)
	return l
}

func TestC33OnlyOneOfTwoTakesTheLock(t *testing.T) {
	s := newStore()
	for _, round := range []string{"created", "updated"} {
		one, two := read(t, s), read(t, s)
		one.Take(claim("RestoreJob", "one", 0))
		two.Take(claim("RestoreJob", "two", 0))
		require.NoError(t, s.Save(t.Context(), one), round)
		require.Equal(t, fault.Conflict, fault.ClassOf(s.Save(t.Context(), two)), round)
		require.Equal(t, "one", read(t, s).Holder.Name)
		one.Release()
		require.NoError(t, s.Save(t.Context(), one), "the version moves along")
		require.Nil(t, read(t, s).Holder)
	}
	stale := read(t, s)
	require.NoError(t, s.Client.Delete(t.Context(), stale.lease))
	require.Equal(t, fault.Conflict, fault.ClassOf(s.Save(t.Context(), stale)), "somebody deleted the Lease")
}

func TestTheLeaseOutlivesItsHolderWithFenceAndRevision(t *testing.T) {
	s := newStore()
	l := read(t, s)
	l.Take(claim("RestoreJob", "one", 0))
	l.Fence = &Fence{Job: "one", Source: "s3://b/k", Release: ReleaseRef("etcd", "u")}
	l.Raise(7)
	require.NoError(t, s.Save(t.Context(), l))
	l.Release()
	l.Raise(5)
	require.NoError(t, s.Save(t.Context(), l))

	l = read(t, s)
	require.Nil(t, l.Holder)
	require.EqualValues(t, 7, l.HighWater)
	require.Equal(t, Fence{Job: "one", Source: "s3://b/k", Release: "etcd/u", Since: l.Fence.Since}, *l.Fence)
	require.True(t, l.Fence.Since.Equal(noon))
	lease := l.lease
	require.Equal(t, "etcd-lock.cozy-etcd.io", lease.Name)
	require.Empty(t, lease.OwnerReferences)
	require.Equal(t, map[string]string{Label: LabelValue, LabelFence: LabelFenceValue, labelManagedBy: managedBy}, lease.Labels)

	l.Fence = nil
	require.NoError(t, s.Save(t.Context(), l))
	lease = read(t, s).lease
	require.Equal(t, map[string]string{AnnotationApplication: "etcd", AnnotationHighWater: "7"}, lease.Annotations)
	require.NotContains(t, lease.Labels, LabelFence)
}

func TestARevisionThatCannotBeIsIgnored(t *testing.T) {
	for _, value := range []string{"", "x", "-4", "0", "1e9", strconv.FormatInt(math.MaxInt64, 10), "99999999999999999999"} {
		l := decode("tenant", "etcd", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationHighWater: value}}})
		require.Zero(t, l.HighWater, value)
	}
}

func TestC33ALockIsBrokenOnlyWhereTheHolderHasEnded(t *testing.T) {
	running := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "running", UID: "1"}}
	tidying := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "tidying", UID: "2", Finalizers: []string{backupsv1alpha1.RestoreFinalizer}}}
	tidying.Status.Phase = backupsv1alpha1.RestoreJobSucceeded
	ended := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "ended", UID: "3"}}
	ended.Status.Phase = backupsv1alpha1.RestoreJobFailed
	saved := &backupsv1alpha1.BackupJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "saved", UID: "4"}}
	saved.Status.Phase = backupsv1alpha1.BackupJobSucceeded
	saving := &backupsv1alpha1.BackupJob{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "saving", UID: "5"}}
	s := newStore(running, tidying, ended, saved, saving)
	for identity, want := range map[string]bool{
		"RestoreJob/running/1": false, "RestoreJob/tidying/2": false, "RestoreJob/ended/3": true, "RestoreJob/running/other": true, "RestoreJob/nobody/1": true,
		"BackupJob/saved/4": true, "BackupJob/saving/5": false, "BackupJob/nobody/1": true, "EtcdOpsRequest/x/1": false, "somebody": false,
	} {
		got, err := s.Ended(t.Context(), "tenant", parseIdentity(identity))
		require.NoError(t, err)
		require.Equal(t, want, got, identity)
	}
}
