package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=plans/status,verbs=patch

const afterConflict = 200 * time.Millisecond

// settle saves the outcome of a pass with one patch, and then tells events and metrics. It is the only writer of a Plan's status.
func (r *Reconciler) settle(ctx context.Context, plan *backupsv1alpha1.Plan, s Seen, d Decision, actErr error) (ctrl.Result, error) {
	switch fault.ClassOf(actErr) {
	case fault.Terminal:
		d.Verb, d.Reason, d.Message = Refuse, fault.ReasonOf(actErr, backupsv1alpha1.ReasonFailed), actErr.Error()
	case fault.Conflict:
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	default:
		if actErr != nil {
			return ctrl.Result{}, r.retrying(ctx, plan, actErr)
		}
	}
	after := plan.DeepCopy()
	write(after, s, d)
	wrote, err := status.Patch(ctx, r.Client, plan, after)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if wrote {
		r.report(plan, d)
	}
	return ctrl.Result{RequeueAfter: again(d)}, nil
}

// retrying says what a run is tried again for: a quota or a policy may not let it through before its time is over, and then nobody else has told why.
func (r *Reconciler) retrying(ctx context.Context, plan *backupsv1alpha1.Plan, cause error) error {
	after := plan.DeepCopy()
	conditions := status.Conditions{List: &after.Status.Conditions, Generation: after.Generation}
	conditions.Progressing(backupsv1alpha1.ReasonRetrying, "%s", cause)
	_, err := status.Patch(ctx, r.Client, plan, after)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	return errors.Join(cause, err)
}

func write(plan *backupsv1alpha1.Plan, s Seen, d Decision) {
	conditions := status.Conditions{List: &plan.Status.Conditions, Generation: plan.Generation}
	switch d.Verb {
	case Skip:
	case Stop:
		conditions.Failed(d.Reason, "%s", d.Message)
	case Refuse:
		lastRun(conditions, d)
		conditions.Failed(d.Reason, "%s", d.Message)
	case Record, Create:
		lastRun(conditions, d)
		conditions.Done(backupsv1alpha1.ReasonScheduled, "%s", nextRun(s.Next))
	default:
		conditions.Done(d.Reason, "%s", d.Message)
	}
}

func lastRun(conditions status.Conditions, d Decision) {
	outcome := metav1.ConditionTrue
	if d.Reason != backupsv1alpha1.ReasonScheduled {
		outcome = metav1.ConditionFalse
	}
	conditions.Set(ConditionLastRun, outcome, d.Reason, "%s %s", d.Tick.UTC().Format(time.RFC3339), d.Message)
}

// again is when to look next. A timer that fires early only costs another look.
func again(d Decision) time.Duration {
	switch d.Verb {
	case Skip, Stop:
		return 0
	default:
		return max(d.Recheck, time.Second)
	}
}

func (r *Reconciler) report(plan *backupsv1alpha1.Plan, d Decision) {
	switch {
	case d.Verb == Create:
		r.Events.Eventf(plan, nil, corev1.EventTypeNormal, d.Reason, "Plan", "%s", d.Message)
	case d.Verb == Refuse, d.Verb == Record && d.Reason != backupsv1alpha1.ReasonScheduled:
		metrics.PlanRunsSkipped.WithLabelValues(plan.Namespace, plan.Name, d.Reason).Inc()
		r.Events.Eventf(plan, nil, corev1.EventTypeWarning, d.Reason, "Plan", "%s", note(d))
	case d.Verb == Stop && readyReason(plan) != d.Reason:
		r.Events.Eventf(plan, nil, corev1.EventTypeWarning, d.Reason, "Plan", "%s", note(d))
	}
}

func note(d Decision) string {
	const maxNote = 1000 // the events API takes 1024 bytes
	text := d.Message
	if !d.Tick.IsZero() {
		text = fmt.Sprintf("%s: %s", d.Tick.UTC().Format(time.RFC3339), text)
	}
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") + "…"
	}
	return text
}

func readyReason(plan *backupsv1alpha1.Plan) string {
	if c := meta.FindStatusCondition(plan.Status.Conditions, backupsv1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}
