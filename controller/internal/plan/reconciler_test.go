package plan

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
)

// stage is a namespace with an etcd and a plan of every quarter of an hour, and a reconciler whose clock the test sets.
type stage struct {
	*testing.T
	client.Client
	namespace string
	now       time.Time
	plan      *backupsv1alpha1.Plan
	events    *events.FakeRecorder
	r         *Reconciler
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, Client: platform(t).Client, namespace: namespace(t), events: events.NewFakeRecorder(20)}
	require.NoError(t, s.Create(t.Context(), &etcdv1alpha2.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "etcd"}, Spec: etcdv1alpha2.EtcdClusterSpec{Version: "3.6.11"},
	}))
	s.r = s.reconciler()
	s.plan = s.newPlan("quarterly", "*/15 * * * *")
	s.now = s.plan.CreationTimestamp.Time
	return s
}

func (s *stage) reconciler() *Reconciler {
	return &Reconciler{Client: s.Client, Events: s.events, Now: func() time.Time { return s.now }}
}

func (s *stage) newPlan(name, cron string) *backupsv1alpha1.Plan {
	s.Helper()
	p := &backupsv1alpha1.Plan{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: backupsv1alpha1.PlanSpec{
			ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "etcd"}, BackupClassName: "daily",
			Schedule: backupsv1alpha1.PlanSchedule{Type: backupsv1alpha1.PlanScheduleCron, Cron: cron},
		},
	}
	require.NoError(s, s.Create(s.Context(), p))
	return p
}

func (s *stage) pass() ctrl.Result {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.plan)})
	require.NoError(s, err)
	require.NoError(s, s.Get(s.Context(), client.ObjectKeyFromObject(s.plan), s.plan))
	return result
}

func (s *stage) jobs() []backupsv1alpha1.BackupJob {
	s.Helper()
	var list backupsv1alpha1.BackupJobList
	require.NoError(s, s.List(s.Context(), &list, client.InNamespace(s.namespace)))
	return list.Items
}

func (s *stage) end(j *backupsv1alpha1.BackupJob) {
	s.Helper()
	j.Status.Phase = backupsv1alpha1.BackupJobSucceeded
	require.NoError(s, s.Status().Update(s.Context(), j))
}

// tick goes to the next quarter of an hour, after all jitter.
func (s *stage) tick() time.Time {
	t := s.now.UTC().Truncate(15 * time.Minute).Add(15 * time.Minute)
	s.now = t.Add(maxJitter)
	return t
}

func (s *stage) condition(kind string) metav1.Condition {
	s.Helper()
	c := meta.FindStatusCondition(s.plan.Status.Conditions, kind)
	require.NotNil(s, c, "%+v", s.plan.Status)
	return *c
}

func (s *stage) skipped(reason string) float64 {
	return testutil.ToFloat64(metrics.PlanRunsSkipped.WithLabelValues(s.namespace, s.plan.Name, reason))
}

func TestRuns(t *testing.T) {
	s := newStage(t)
	s.pass()
	require.Empty(t, s.jobs(), "nothing is due yet")
	require.Contains(t, s.condition(backupsv1alpha1.ConditionReady).Message, "next run at")

	tick := s.tick()
	result := s.pass()
	jobs := s.jobs()
	require.Len(t, jobs, 1)
	require.Equal(t, jobName("quarterly", tick), jobs[0].Name)
	require.True(t, metav1.IsControlledBy(&jobs[0], s.plan))
	require.Equal(t, "quarterly", jobs[0].Spec.PlanRef.Name)
	require.Equal(t, "daily", jobs[0].Spec.BackupClassName)
	require.Equal(t, s.plan.Spec.ApplicationRef, jobs[0].Spec.ApplicationRef)
	require.Equal(t, tick.Add(15*time.Minute).Sub(s.now), result.RequeueAfter)
	require.True(t, strings.HasPrefix(s.condition(ConditionLastRun).Message, tick.Format(time.RFC3339)))
	require.Contains(t, <-s.events.Events, jobs[0].Name)

	s.now = s.now.Add(time.Minute)
	s.pass()
	require.NoError(t, s.Delete(t.Context(), &jobs[0]))
	s.pass()
	require.Empty(t, s.jobs(), "a run that was dealt with does not start again, even if its job is deleted")
}

func TestC46JitterDelaysTheJobNotItsName(t *testing.T) {
	s := newStage(t)
	tick := s.tick()
	ticks := mustParse(t, "*/15 * * * *")
	delay := ticks.jitter(s.plan.UID, tick)
	if delay > 0 {
		s.now = tick.Add(delay - time.Second)
		require.Equal(t, time.Second, s.pass().RequeueAfter)
		require.Empty(t, s.jobs())
	}
	s.now = tick.Add(delay)
	s.pass()
	require.Equal(t, jobName("quarterly", tick), s.jobs()[0].Name)
}

func TestC46StuckPredecessor(t *testing.T) {
	s := newStage(t)
	s.tick()
	s.pass()
	former := s.jobs()[0]
	for range 3 {
		s.tick()
		s.pass()
		require.Len(t, s.jobs(), 1, "not queued")
	}
	require.InDelta(t, 3, s.skipped(backupsv1alpha1.ReasonRunSkipped), 0)
	require.Contains(t, s.condition(ConditionLastRun).Message, former.Name)
	require.Equal(t, metav1.ConditionFalse, s.condition(ConditionLastRun).Status)

	s.end(&former)
	s.now = s.now.Add(time.Minute)
	s.pass()
	require.Len(t, s.jobs(), 1, "a run that was skipped is not made up for")
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 2)
}

func TestRestoreUnderWaySkipsTheRun(t *testing.T) {
	s := newStage(t)
	restore := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "back"}}
	restore.Spec.BackupRef.Name = "x"
	require.NoError(t, s.Create(t.Context(), restore))
	restore.Status.StartedAt = &metav1.Time{Time: s.now}
	require.NoError(t, s.Status().Update(t.Context(), restore))
	require.NoError(t, s.Delete(t.Context(), &etcdv1alpha2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "etcd"}}))
	s.tick()
	s.pass()
	require.Empty(t, s.jobs())
	require.Contains(t, s.condition(ConditionLastRun).Message, `RestoreJob "back"`)
	require.Equal(t, metav1.ConditionTrue, s.condition(backupsv1alpha1.ConditionReady).Status, "the cluster is only away")
}

func TestMissedRunIsReportedOnce(t *testing.T) {
	s := newStage(t)
	tick := s.tick()
	s.now = tick.Add(missedAfter + time.Second)
	s.pass()
	s.pass()
	require.Empty(t, s.jobs())
	require.InDelta(t, 1, s.skipped(backupsv1alpha1.ReasonRunMissed), 0)
	require.Contains(t, s.condition(ConditionLastRun).Message, tick.Format(time.RFC3339))
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 1)
}

func TestC44RefusedScheduleShowsAsACondition(t *testing.T) {
	s := newStage(t)
	s.plan.Spec.Schedule.Cron = "TZ=Europe/Berlin 30 2 * * *"
	require.NoError(t, s.Update(t.Context(), s.plan))
	require.Zero(t, s.pass().RequeueAfter)
	require.Equal(t, backupsv1alpha1.ReasonScheduleInvalid, s.condition(backupsv1alpha1.ConditionStalled).Reason)
	require.Contains(t, s.condition(backupsv1alpha1.ConditionReady).Message, "time zone")
	s.plan.Spec.Schedule.Cron = "30 2 * * *"
	require.NoError(t, s.Update(t.Context(), s.plan))
	s.pass()
	require.Equal(t, metav1.ConditionTrue, s.condition(backupsv1alpha1.ConditionReady).Status)
	require.Nil(t, meta.FindStatusCondition(s.plan.Status.Conditions, backupsv1alpha1.ConditionStalled))
}

func TestC60PlanOfAMissingApplicationReportsAndStops(t *testing.T) {
	s := newStage(t)
	cluster := &etcdv1alpha2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "etcd"}}
	require.NoError(t, s.Delete(t.Context(), cluster))
	s.tick()
	require.Zero(t, s.pass().RequeueAfter)
	require.Empty(t, s.jobs())
	require.Equal(t, backupsv1alpha1.ReasonApplicationNotFound, s.condition(backupsv1alpha1.ConditionStalled).Reason)
	require.Contains(t, <-s.events.Events, backupsv1alpha1.ReasonApplicationNotFound)
	s.pass()
	require.Empty(t, s.events.Events, "said once")

	cluster.ResourceVersion, cluster.Spec.Version = "", "3.6.11"
	require.NoError(t, s.Create(t.Context(), cluster))
	s.tick()
	s.pass()
	require.Len(t, s.jobs(), 1)
}

func TestPlansOfOtherKindsAreLeftAlone(t *testing.T) {
	s := newStage(t)
	s.plan.Spec.ApplicationRef.Kind = "Postgres"
	require.NoError(t, s.Update(t.Context(), s.plan))
	s.tick()
	s.pass()
	require.Empty(t, s.jobs())
	require.Empty(t, s.plan.Status.Conditions)
}

// C61: two schedulers at once, and a job that Cozystack's controller made.
func TestC61TwoSchedulers(t *testing.T) {
	s := newStage(t)
	tick := s.tick()
	two := []*Reconciler{s.reconciler(), s.reconciler()}
	var wg sync.WaitGroup
	for _, r := range two {
		wg.Go(func() {
			_, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.plan)})
		})
	}
	wg.Wait()
	s.pass()
	require.Len(t, s.jobs(), 1)
	s.end(&s.jobs()[0])

	tick = tick.Add(15 * time.Minute)
	s.now = tick.Add(maxJitter)
	theirs := &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobName("quarterly", tick)},
		Spec: backupsv1alpha1.BackupJobSpec{
			PlanRef: &corev1.LocalObjectReference{Name: "quarterly"}, ApplicationRef: s.plan.Spec.ApplicationRef, BackupClassName: "daily",
		},
	}
	require.NoError(t, s.Create(t.Context(), theirs))
	s.pass()
	require.Len(t, s.jobs(), 2)
	require.Equal(t, metav1.ConditionTrue, s.condition(ConditionLastRun).Status)
}

// The coming and going of the application wakes its plans.
func TestWatches(t *testing.T) {
	s := newStage(t)
	mgr, err := ctrl.NewManager(platform(t).Config, ctrl.Options{Scheme: api.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	r := &Reconciler{Client: mgr.GetClient(), Events: mgr.GetEventRecorder("etcd-controller"), Now: time.Now}
	require.NoError(t, r.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	s.await(backupsv1alpha1.ReasonScheduled)
	cluster := &etcdv1alpha2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "etcd"}}
	require.NoError(t, s.Delete(ctx, cluster))
	s.await(backupsv1alpha1.ReasonApplicationNotFound)
	cluster.ResourceVersion, cluster.Spec.Version = "", "3.6.11"
	require.NoError(t, s.Create(ctx, cluster))
	s.await(backupsv1alpha1.ReasonScheduled)
}

func (s *stage) await(reason string) {
	s.Helper()
	require.Eventually(s, func() bool {
		require.NoError(s, s.Get(s.Context(), client.ObjectKeyFromObject(s.plan), s.plan))
		return readyReason(s.plan) == reason
	}, 10*time.Second, 20*time.Millisecond, reason)
}
