package restorejob

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// soon is the delay before the next pass where the next step is known.
const soon = time.Millisecond

// settle writes the status where the pass changed what it shows, then tells what happened, then says when to look again. Steps that follow each other at
// once write no status between them.
func (r *Reconciler) settle(ctx context.Context, w *world, d Decision, err error) (ctrl.Result, error) {
	if fault.ClassOf(err) == fault.Conflict {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if err == nil && d.Verb == Rest {
		return ctrl.Result{}, nil
	}
	if err != nil && terminal(w.seen) {
		return ctrl.Result{}, err // how the restore ended stays, whatever hinders the cleaning up
	}
	if err != nil || d.shows() {
		saveErr := r.save(ctx, w, d, err)
		if apierrors.IsConflict(saveErr) {
			return ctrl.Result{RequeueAfter: soon}, nil
		}
		if saveErr != nil {
			return ctrl.Result{}, saveErr
		}
	}
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case d.Verb == Wait:
		return ctrl.Result{RequeueAfter: w.seen.until(d.Recheck)}, nil
	}
	return ctrl.Result{RequeueAfter: soon}, nil
}

// shows tells that a decision is seen from outside.
func (d Decision) shows() bool {
	switch d.Action {
	case ActionStart, ActionAnnounce, ActionAnnounceGone, ActionProve, ActionPrepare, ActionProveSafety, ActionPrepareSafety, ActionAnnounceRollback, ActionReport, ActionEvict:
		return true
	}
	return d.Verb == Wait || d.Verb == Succeed || d.Verb == Fail
}

// until is the time to the next look: the deadline is one, too.
func (s Seen) until(recheck time.Duration) time.Duration {
	if s.Job.StartedAt.IsZero() {
		return recheck
	}
	if left := s.Deadline().Sub(s.Now); left > 0 && left < recheck {
		return left
	}
	return recheck
}

func (r *Reconciler) save(ctx context.Context, w *world, d Decision, err error) error {
	before := w.job.DeepCopy()
	s := &w.job.Status
	c := status.Conditions{List: &s.Conditions, Generation: w.job.Generation}
	w.domainConditions(c)
	now := metav1.NewTime(w.seen.Now)
	switch {
	case err != nil:
		c.Progressing(backupsv1alpha1.ReasonRetrying, "%s: %v", d.Message, err)
	case d.Verb == Succeed:
		s.Phase, s.CompletedAt = backupsv1alpha1.RestoreJobSucceeded, &now
		c.Done(d.Reason, "%s", d.Message)
	case d.Verb == Fail:
		s.Phase, s.CompletedAt = backupsv1alpha1.RestoreJobFailed, &now
		c.Failed(d.Reason, "%s", d.Message)
	case d.Action == ActionStart:
		s.StartedAt = &now
		c.Progressing(d.Reason, "%s", d.Message)
	default:
		c.Progressing(d.Reason, "%s", d.Message)
	}
	switch {
	case s.Phase.Terminal():
	case s.StartedAt == nil:
		s.Phase = backupsv1alpha1.RestoreJobPending
	default:
		s.Phase = backupsv1alpha1.RestoreJobRunning
	}
	if ready := meta.FindStatusCondition(s.Conditions, backupsv1alpha1.ConditionReady); ready != nil {
		s.Message = ready.Message
	}
	saved, err := status.Patch(ctx, r.Client, before, w.job)
	if err != nil || !saved {
		return err
	}
	r.tell(before, w)
	return nil
}

// domainConditions say how far the restore has come. A condition that became true stays so, except for the suspension, which is undone at the end.
func (w *world) domainConditions(c status.Conditions) {
	s := w.seen
	if s.Record == nil {
		return
	}
	c.Set(backupsv1alpha1.ConditionCaptured, metav1.ConditionTrue, backupsv1alpha1.ReasonCaptured, "sha256 %s of the spec from %s, in record %s",
		s.Record.SHA256, w.record.SpecFrom, record.Name(w.job.UID))
	w.wayBackConditions(c)
	w.suspendedCondition(c)
	w.reportedCondition(c)
	w.consumersCondition(c)
	w.fencedCondition(c)
	if !s.Record.DeleteIntended {
		meta.RemoveStatusCondition(c.List, backupsv1alpha1.ConditionDeleted) // of an intent that was taken back
		return
	}
	if s.remains() && !s.ours() && !s.rollingBack() {
		c.Set(backupsv1alpha1.ConditionDeleted, metav1.ConditionFalse, backupsv1alpha1.ReasonWaitingForDeletion, "%s", s.remaining())
		return
	}
	if s.Record.Outcome == nil || s.ours() {
		c.Set(backupsv1alpha1.ConditionDeleted, metav1.ConditionTrue, backupsv1alpha1.ReasonFormerClusterGone, "nothing is left of the former cluster %s", w.record.OldUID)
	}
	w.wholeConditions(c)
}

func (w *world) suspendedCondition(c status.Conditions) {
	s := w.seen
	switch {
	case s.Release == nil && !s.Record.HasRelease:
		c.Set(backupsv1alpha1.ConditionSuspended, metav1.ConditionFalse, backupsv1alpha1.ReasonNoHelmRelease, "no HelmRelease manages the cluster")
	case s.Release == nil || !s.Record.SuspendIntended:
	case s.Release.Suspended && s.Record.WasSuspended:
		c.Set(backupsv1alpha1.ConditionSuspended, metav1.ConditionTrue, backupsv1alpha1.ReasonSuspendedBefore, "HelmRelease %q was suspended before and stays so", s.Release.Name)
	case s.Release.Suspended:
		c.Set(backupsv1alpha1.ConditionSuspended, metav1.ConditionTrue, backupsv1alpha1.ReasonSuspended, "HelmRelease %q is suspended by this restore", s.Release.Name)
	default:
		c.Set(backupsv1alpha1.ConditionSuspended, metav1.ConditionFalse, backupsv1alpha1.ReasonResumed, "HelmRelease %q is not suspended", s.Release.Name)
	}
}

func (w *world) wholeConditions(c status.Conditions) {
	s := w.seen
	switch {
	case !s.ours() || s.rollingBack():
	case s.Record.Outcome != nil && s.Record.Outcome.Succeeded:
		w.servingCondition(c)
		c.Set(backupsv1alpha1.ConditionWhole, metav1.ConditionTrue, backupsv1alpha1.ReasonAllMembersAgree, "%s", s.Record.Outcome.Message)
	case s.Record.Outcome != nil:
		c.Set(backupsv1alpha1.ConditionWhole, metav1.ConditionFalse, s.Record.Outcome.Reason, "%s", s.Record.Outcome.Message)
	default:
		if s.serving() {
			w.servingCondition(c)
		}
		c.Set(backupsv1alpha1.ConditionWhole, metav1.ConditionFalse, backupsv1alpha1.ReasonWaitingForMembers, "%s", s.progress())
	}
}

// servingCondition keeps the first message, whose time is the one that counts.
func (w *world) servingCondition(c status.Conditions) {
	if s := w.seen; !s.Job.Serving {
		c.Set(backupsv1alpha1.ConditionServing, metav1.ConditionTrue, backupsv1alpha1.ReasonRestoredRevisionServed,
			"a member of cluster %s answers at revision %d or above", s.Cluster.ClusterID, s.Record.Revision)
	}
}

// tell reports transitions, after they were saved.
func (r *Reconciler) tell(before *backupsv1alpha1.RestoreJob, w *world) {
	for _, now := range w.job.Status.Conditions {
		was := meta.FindStatusCondition(before.Status.Conditions, now.Type)
		byReason := now.Type == backupsv1alpha1.ConditionReady || now.Type == backupsv1alpha1.ConditionConsumersRestarted
		if was != nil && was.Status == now.Status && (was.Reason == now.Reason || !byReason) {
			continue
		}
		r.tellCondition(w, now, was == nil)
	}
	if before.Status.Phase.Terminal() || !w.job.Status.Phase.Terminal() {
		return
	}
	result := metrics.Failed
	if w.job.Status.Phase == backupsv1alpha1.RestoreJobSucceeded {
		result = metrics.Succeeded
	}
	metrics.RestoreJobs.WithLabelValues(w.job.Namespace, result).Inc()
}

func (r *Reconciler) tellCondition(w *world, now metav1.Condition, first bool) {
	quiet := first && now.Status == metav1.ConditionFalse && !tellsFalse(now)
	if quiet || now.Type == backupsv1alpha1.ConditionReconciling || now.Type == backupsv1alpha1.ConditionStalled {
		return
	}
	kind := corev1.EventTypeNormal
	if w.job.Status.Phase == backupsv1alpha1.RestoreJobFailed && now.Type == backupsv1alpha1.ConditionReady {
		kind = corev1.EventTypeWarning
	}
	if now.Reason == backupsv1alpha1.ReasonControlPlanesLost || now.Reason == backupsv1alpha1.ReasonConsumersNotRestarted {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(w.job, nil, kind, now.Reason, "Restore", "%s", eventNote(now))
	if w.record == nil || now.Status != metav1.ConditionTrue {
		return
	}
	if since, ok := w.record.Steps[record.StepDelete]; ok {
		switch now.Type {
		case backupsv1alpha1.ConditionServing:
			metrics.RestoreSeconds.WithLabelValues("serving").Observe(w.seen.Now.Sub(since.Time).Seconds())
		case backupsv1alpha1.ConditionWhole:
			metrics.RestoreSeconds.WithLabelValues("whole").Observe(w.seen.Now.Sub(since.Time).Seconds())
		}
	}
}

// tellsFalse tells that a condition is news even where it begins as False.
func tellsFalse(c metav1.Condition) bool {
	return c.Type == backupsv1alpha1.ConditionReady || c.Type == backupsv1alpha1.ConditionRolledBack || c.Reason == backupsv1alpha1.ReasonSafetySnapshotSkipped
}

// eventNote fits the 1024 bytes that an event takes.
func eventNote(c metav1.Condition) string {
	note := c.Type + ": " + c.Message
	if runes := []rune(note); len(runes) > 250 {
		return string(runes[:250]) + "…"
	}
	return note
}
