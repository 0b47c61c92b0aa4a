package plan

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// C61: a job that has the run's name by chance or by intent is not the run.
func TestC61NameOfARunIsTaken(t *testing.T) {
	s := newStage(t)
	tick := s.tick()
	foreign := &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobName("quarterly", tick)},
		Spec:       backupsv1alpha1.BackupJobSpec{ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "other"}, BackupClassName: "x"},
	}
	require.NoError(t, s.Create(t.Context(), foreign))
	s.pass()
	last := s.condition(ConditionLastRun)
	require.Equal(t, metav1.ConditionFalse, last.Status)
	require.Contains(t, last.Message, foreign.Name)
	require.InDelta(t, 1, s.skipped(backupsv1alpha1.ReasonRunSkipped), 0)

	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 2, "the next tick has another name")
}

// A job that the cache does not show yet is looked at before it counts as the run.
func TestC61CreatedUnderAStaleCache(t *testing.T) {
	s := newStage(t)
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 1)
	s.plan.Status = backupsv1alpha1.PlanStatus{}
	require.NoError(t, s.Status().Update(t.Context(), s.plan))
	stale := true
	s.r.Client = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*backupsv1alpha1.BackupJobList); ok && stale {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	require.Equal(t, afterConflict, s.pass().RequeueAfter)
	stale = false
	s.pass()
	require.Equal(t, metav1.ConditionTrue, s.condition(ConditionLastRun).Status)
}

// A run that the API server refuses is reported and counted, and does not end the runs after it.
func TestARefusedRunDoesNotEndThePlan(t *testing.T) {
	s := newStage(t)
	refuse := true
	s.r.Client = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refuse {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "BackupJob"}, o.GetName(), nil)
			}
			return c.Create(ctx, o, opts...)
		},
	})
	tick := s.tick()
	require.Equal(t, tick.Add(15*time.Minute).Sub(s.now), s.pass().RequeueAfter)
	require.Equal(t, backupsv1alpha1.ReasonFailed, s.condition(backupsv1alpha1.ConditionReady).Reason)
	require.True(t, meta.IsStatusConditionTrue(s.plan.Status.Conditions, backupsv1alpha1.ConditionStalled))
	require.Equal(t, metav1.ConditionFalse, s.condition(ConditionLastRun).Status)
	require.InDelta(t, 1, s.skipped(backupsv1alpha1.ReasonFailed), 0)

	refuse = false
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 1)
	require.True(t, meta.IsStatusConditionTrue(s.plan.Status.Conditions, backupsv1alpha1.ConditionReady))
	require.False(t, meta.IsStatusConditionTrue(s.plan.Status.Conditions, backupsv1alpha1.ConditionStalled))
}

// A tick that was recorded under a clock of the future does not stop the plan until then.
func TestLastRunOfTheFuture(t *testing.T) {
	s := newStage(t)
	right := s.now
	s.now = right.AddDate(1, 0, 0)
	s.tick()
	s.pass()
	for _, j := range s.jobs() {
		s.end(&j)
	}
	runs := len(s.jobs())
	s.now = right.Add(time.Hour)
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), runs+1)
	_, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.plan)})
	require.NoError(t, err)
	require.Len(t, s.jobs(), runs+1, "each tick once")
}

// A quota or a policy that does not let a run through in time is named, while it is tried again and when it is missed.
func TestARunThatIsHinderedNamesTheCause(t *testing.T) {
	s := newStage(t)
	hindered := true
	s.r.Client = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if hindered {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "backupjobs"}, o.GetName(), errors.New("exceeded quota: jobs"))
			}
			return c.Create(ctx, o, opts...)
		},
	})
	tick := s.tick()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.plan)}
	for range 2 {
		_, err := s.r.Reconcile(t.Context(), request)
		require.True(t, apierrors.IsForbidden(err))
	}
	require.NoError(t, s.Get(t.Context(), request.NamespacedName, s.plan))
	require.Equal(t, backupsv1alpha1.ReasonRetrying, s.condition(backupsv1alpha1.ConditionReady).Reason)
	require.Contains(t, s.condition(backupsv1alpha1.ConditionReady).Message, "exceeded quota")

	s.now = tick.Add(missedAfter + time.Second)
	s.pass()
	require.Contains(t, s.condition(ConditionLastRun).Message, "exceeded quota")
	require.True(t, meta.IsStatusConditionTrue(s.plan.Status.Conditions, backupsv1alpha1.ConditionReady))
	hindered = false
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 1)
	require.Equal(t, metav1.ConditionTrue, s.condition(ConditionLastRun).Status)
}

// Of two applications in a namespace, only the one that is restored goes without its run.
func TestARestoreOfAnotherApplicationSkipsNoRun(t *testing.T) {
	s := newStage(t)
	backup := &backupsv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other"}}
	backup.Spec.ApplicationRef = corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "other"}
	backup.Spec.StrategyRef = corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "x"}
	backup.Spec.TakenAt = metav1.NewTime(s.now)
	require.NoError(t, s.Create(t.Context(), backup))
	restore := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "back"}}
	restore.Spec.BackupRef.Name = backup.Name
	require.NoError(t, s.Create(t.Context(), restore))
	restore.Status.StartedAt = &metav1.Time{Time: s.now}
	require.NoError(t, s.Status().Update(t.Context(), restore))
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 1)
}
