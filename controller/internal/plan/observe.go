package plan

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=plans;backupjobs;restorejobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch

// ConditionLastRun holds the last tick that was dealt with and how: its message begins with the tick in RFC 3339. It is the plan's memory.
const ConditionLastRun = "LastRun"

func (r *Reconciler) observe(ctx context.Context, plan *backupsv1alpha1.Plan) (Seen, error) {
	s := Seen{
		Now: r.Now(), Deleting: !plan.DeletionTimestamp.IsZero(), Ours: backupstrategy.IsEtcdApplication(plan.Spec.ApplicationRef),
		Application: plan.Spec.ApplicationRef.Name,
	}
	if s.Deleting || !s.Ours {
		return s, nil
	}
	ticks, err := parse(plan.Spec.Schedule)
	if err != nil {
		s.Schedule = err.Error()
		return s, nil //nolint:nilerr // a fact about the Plan, not a failure to observe it
	}
	handled := handledUpTo(plan, s.Now)
	s.Next, s.Due, s.Missed = ticks.after(s.Now), ticks.due(handled, s.Now), ticks.missed(handled, s.Now)
	if c := meta.FindStatusCondition(plan.Status.Conditions, backupsv1alpha1.ConditionReady); c != nil && c.Reason == backupsv1alpha1.ReasonRetrying {
		s.Trouble = c.Message
	}
	if !s.Due.IsZero() {
		s.Job, s.Jitter = jobName(plan.Name, s.Due), ticks.jitter(plan.UID, s.Due)
	}
	if err := r.observeRuns(ctx, plan, &s); err != nil || s.Active != "" {
		return s, err // a restore takes the cluster away for a while
	}
	s.Gone, err = r.gone(ctx, plan)
	return s, err
}

// handledUpTo is the time up to which ticks are dealt with; those from before the plan's creation never were its own. A tick of the future was recorded under a
// wrong clock: to believe it would stop the plan until then.
func handledUpTo(plan *backupsv1alpha1.Plan, now time.Time) time.Time {
	created := plan.CreationTimestamp.Time
	c := meta.FindStatusCondition(plan.Status.Conditions, ConditionLastRun)
	if c == nil {
		return created
	}
	stamp, _, _ := strings.Cut(c.Message, " ")
	last, err := time.Parse(time.RFC3339, stamp)
	if last.After(now.Add(missedAfter)) {
		last = now.Add(-missedAfter)
	}
	if err != nil || last.Before(created) {
		return created
	}
	return last
}

// gone tells that nothing of the application is there.
func (r *Reconciler) gone(ctx context.Context, plan *backupsv1alpha1.Plan) (bool, error) {
	key := client.ObjectKey{Namespace: plan.Namespace, Name: plan.Spec.ApplicationRef.Name}
	objects := []client.Object{etcdv1alpha2.WholeCluster()}
	if r.flux {
		objects = append(objects, &fluxv2.HelmRelease{})
	}
	for _, o := range objects {
		err := r.Get(ctx, key, o)
		if err == nil {
			return false, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for application %s: %w", key, err)
		}
	}
	return true, nil
}

// runs tells whether a job is a run of the plan, whoever made it: Cozystack's controller gives the same name.
func runs(j *backupsv1alpha1.BackupJob, plan *backupsv1alpha1.Plan) bool {
	named := j.Spec.PlanRef != nil && j.Spec.PlanRef.Name == plan.Name && j.Spec.ApplicationRef.Name == plan.Spec.ApplicationRef.Name
	return named || metav1.IsControlledBy(j, plan)
}

// observeRuns looks for the job of the due tick and for runs that are under way: an earlier one of this plan, or a restore.
func (r *Reconciler) observeRuns(ctx context.Context, plan *backupsv1alpha1.Plan, s *Seen) error {
	var jobs backupsv1alpha1.BackupJobList
	if err := r.List(ctx, &jobs, client.InNamespace(plan.Namespace)); err != nil {
		return fmt.Errorf("list BackupJobs of %s: %w", plan.Namespace, err)
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		switch {
		case j.Name == s.Job && runs(j, plan):
			s.JobExists = true
		case j.Name == s.Job:
			s.Taken = true
		case j.Spec.PlanRef != nil && j.Spec.PlanRef.Name == plan.Name && !j.Status.Phase.Terminal() && j.DeletionTimestamp.IsZero():
			s.Active = fmt.Sprintf("BackupJob %q", j.Name)
		}
	}
	restores, err := lock.RestoreClaims(ctx, r.Client, plan.Namespace, plan.Spec.ApplicationRef.Name)
	for _, restore := range restores {
		if restore.Begun {
			s.Active = restore.String()
		}
	}
	return err
}
