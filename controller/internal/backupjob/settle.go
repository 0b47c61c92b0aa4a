package backupjob

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupjobs/status,verbs=patch

// afterConflict is when a pass is repeated that met a newer object; its event usually comes first.
const afterConflict = 200 * time.Millisecond

// settle writes the outcome of a pass into the job's status with one patch, and then tells events and metrics. It is the only writer of that status.
func (r *Reconciler) settle(ctx context.Context, job *backupsv1alpha1.BackupJob, o observation, d Decision, actErr error) (ctrl.Result, error) {
	if isConflict(actErr) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	d, retry := withError(o.seen, d, actErr)
	after := job.DeepCopy()
	write(after, o.seen, d)
	wrote, err := status.Patch(ctx, r.Client, job, after)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil // the job is gone, and its snapshot goes with it
	case isConflict(err):
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if wrote {
		r.written.Note(after)
	}
	r.report(job, after, d, wrote)
	return ctrl.Result{RequeueAfter: again(o.seen, d, after)}, retry
}

func isConflict(err error) bool {
	return apierrors.IsConflict(err) || (err != nil && fault.ClassOf(err) == fault.Conflict)
}

// withError turns what was decided into what happened: a terminal error fails the run, a waiting one names the blocker, any other is tried again.
func withError(s Seen, d Decision, err error) (Decision, error) {
	if err == nil {
		return d, nil
	}
	if (d.Action == ActionCreateBackup || d.Action == ActionCompleteBackup) && apierrors.IsForbidden(err) && !s.Now.Before(s.deadline()) {
		// Whatever the table says of a snapshot that was complete in time: a quota or a policy is nothing that the run can outwait.
		s.Job.Blocker = err.Error()
		return expire(s), nil
	}
	d.Message, d.Recheck = err.Error(), 0
	if d.Stage == StageSnapshot && d.Action == ActionCreateSnapshot {
		d.Stage = StageResolved // there is no snapshot yet
	}
	switch fault.ClassOf(err) {
	case fault.Terminal:
		d.Verb, d.Reason = Fail, fault.ReasonOf(err, backupsv1alpha1.ReasonInternalError)
		return d, nil
	case fault.Waiting:
		d.Verb, d.Reason, d.Recheck = Wait, fault.ReasonOf(err, backupsv1alpha1.ReasonRetrying), recheck
		return d, nil
	default:
		d.Verb, d.Reason = Wait, backupsv1alpha1.ReasonRetrying
		return d, err
	}
}

// unread is the outcome of a pass that could not read what its decision rests on. The deadline covers that as well, but not for one error alone: a controller
// that comes back late may find a snapshot that was complete in time.
func unread(s Seen, err error) Decision {
	again := strings.HasPrefix(s.Job.Blocker, backupsv1alpha1.ReasonRetrying+": ")
	s.Job.Blocker = backupsv1alpha1.ReasonRetrying + ": " + err.Error()
	if again && !s.Now.Before(s.deadline()) {
		return expire(s)
	}
	return wait(StageNone, 0, backupsv1alpha1.ReasonRetrying, "%s", err.Error())
}

// write puts a decision into the status. startedAt is written once, and nothing changes a final phase.
func write(job *backupsv1alpha1.BackupJob, s Seen, d Decision) {
	st := &job.Status
	if st.Phase.Terminal() || d.Verb == Skip || (d.Verb == Do && d.Action != ActionCreateSnapshot) {
		return
	}
	conditions := status.Conditions{List: &st.Conditions, Generation: job.Generation}
	st.Phase = backupsv1alpha1.BackupJobPending
	if d.Stage != StageQueue {
		st.Phase = backupsv1alpha1.BackupJobRunning
		if st.StartedAt == nil {
			st.StartedAt = &metav1.Time{Time: s.Now}
		}
	}
	writeStage(conditions, d)
	switch d.Verb {
	case Succeed:
		st.Phase, st.CompletedAt = backupsv1alpha1.BackupJobSucceeded, &metav1.Time{Time: s.Now}
		st.BackupRef = &corev1.LocalObjectReference{Name: s.Backup.Name}
		conditions.Done(d.Reason, "%s", d.Message)
	case Fail:
		st.Phase, st.CompletedAt = backupsv1alpha1.BackupJobFailed, &metav1.Time{Time: s.Now}
		conditions.Failed(d.Reason, "%s", d.Message)
	default:
		conditions.Progressing(d.Reason, "%s", d.Message)
	}
	st.Message = status.Bound(d.Message)
}

func writeStage(c status.Conditions, d Decision) {
	resolved := func() {
		c.Set(backupsv1alpha1.ConditionResolved, metav1.ConditionTrue, backupsv1alpha1.ReasonSucceeded, "class, strategy and destination are valid")
	}
	switch d.Stage {
	case StageResolving:
		c.Set(backupsv1alpha1.ConditionResolved, metav1.ConditionFalse, d.Reason, "%s", d.Message)
	case StageResolved:
		resolved()
	case StageSnapshot:
		resolved()
		c.Set(backupsv1alpha1.ConditionSnapshotStored, metav1.ConditionFalse, d.Reason, "%s", d.Message)
	case StageStored:
		resolved()
		c.Set(backupsv1alpha1.ConditionSnapshotStored, metav1.ConditionTrue, backupsv1alpha1.ReasonSnapshotStored, "the snapshot is stored and its record is complete")
	}
}

// again is when to look next, whatever the watches say: at the latest when the deadline passes.
func again(s Seen, d Decision, job *backupsv1alpha1.BackupJob) time.Duration {
	if job.Status.Phase.Terminal() || d.Verb == Skip {
		return 0
	}
	if job.Status.StartedAt == nil {
		return max(d.Recheck, time.Second)
	}
	s.Job.StartedAt = job.Status.StartedAt.Time
	next := s.deadline().Sub(s.Now)
	if d.Stage == StageResolving {
		next = min(next, s.start().Add(s.Limits.Bootstrap).Sub(s.Now))
	}
	if d.Recheck > 0 {
		next = min(next, d.Recheck)
	}
	return max(next, time.Second)
}

// report tells events and metrics, on transitions that were saved. A finished job seen for the first time after a restart still tells its age.
func (r *Reconciler) report(before, after *backupsv1alpha1.BackupJob, d Decision, wrote bool) {
	if after.Status.Phase == backupsv1alpha1.BackupJobSucceeded && after.Status.CompletedAt != nil {
		r.ages.record(client.ObjectKey{Namespace: after.Namespace, Name: after.Spec.ApplicationRef.Name}, after.Status.CompletedAt.Time)
	}
	if !wrote {
		return
	}
	switch after.Status.Phase {
	case backupsv1alpha1.BackupJobSucceeded:
		metrics.BackupJobs.WithLabelValues(after.Namespace, metrics.Succeeded).Inc()
		metrics.BackupSeconds.Observe(after.Status.CompletedAt.Sub(after.Status.StartedAt.Time).Seconds())
		r.event(after, corev1.EventTypeNormal, d)
	case backupsv1alpha1.BackupJobFailed:
		metrics.BackupJobs.WithLabelValues(after.Namespace, metrics.Failed).Inc()
		r.event(after, corev1.EventTypeWarning, d)
	default:
		if d.Verb == Wait && blocks(d) && readyReason(before) != d.Reason {
			r.event(after, corev1.EventTypeWarning, d)
		}
	}
}

// blocks tells a wait for something that is missing from the ordinary wait for the operator.
func blocks(d Decision) bool { return d.Row != RowSnapshotRunning }

func readyReason(job *backupsv1alpha1.BackupJob) string {
	if c := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func (r *Reconciler) event(job *backupsv1alpha1.BackupJob, kind string, d Decision) {
	const maxNote = 1000 // the events API takes 1024 bytes
	note := d.Message
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "…"
	}
	r.Events.Eventf(job, nil, kind, d.Reason, "Backup", "%s", note)
}
