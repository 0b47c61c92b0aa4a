package restorejob

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// act makes the one change that a decision asks for. Changes of the status alone are left to settle.
func (r *Reconciler) act(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case "", ActionStart, ActionAnnounce, ActionAnnounceGone:
		return nil
	case ActionLock, ActionFence, ActionLiftFence, ActionUnlock:
		return r.actOnLock(ctx, w, d)
	case ActionHoldJob:
		return r.holdJob(ctx, w)
	case ActionLetGo:
		return r.letGo(ctx, w)
	case ActionCapture:
		return r.capture(ctx, w)
	case ActionIntendSuspend:
		return r.intendSuspend(ctx, w)
	case ActionIntendDelete:
		return r.intendDelete(ctx, w)
	case ActionReconsider:
		delete(w.record.Steps, record.StepDelete)
		return r.Records.Save(ctx, w.record)
	case ActionExtend:
		w.record.GraceUntil = new(metav1.NewTime(w.seen.graceUntil()))
		return r.Records.Save(ctx, w.record)
	case ActionConclude:
		return r.conclude(ctx, w, d.Outcome)
	case ActionForget:
		return r.forget(ctx, w)
	case ActionForgetSuperseded:
		return r.forgetSuperseded(ctx, w)
	case ActionUninstall:
		return r.uninstall(ctx, w)
	case ActionUninstallLeft:
		w.record.Left = d.Message
		return r.Records.Save(ctx, w.record)
	case ActionKeepRecord:
		w.record.Outcome.Keep = true
		return r.Records.Save(ctx, w.record)
	case ActionSuspend:
		return r.suspend(ctx, w)
	case ActionResume:
		return r.resume(ctx, w)
	case ActionLeaveSuspended:
		return r.leaveSuspended(ctx, w)
	}
	return r.actOnArtifact(ctx, w, d)
}

func (r *Reconciler) actOnArtifact(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case ActionProve:
		return r.prove(ctx, w, d)
	case ActionIntendPrepare:
		return r.intendPrepare(ctx, w)
	case ActionPrepare:
		return r.prepare(ctx, w, d)
	case ActionDiscard:
		return r.discard(ctx, w, w.record, w.record.Prepared)
	}
	return r.actOnReport(ctx, w, d)
}

func (r *Reconciler) actOnCluster(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case ActionDelete:
		return r.deleteCluster(ctx, w)
	case ActionRecreate:
		return r.recreate(ctx, w)
	case ActionOwn:
		return r.own(ctx, w)
	case ActionPutBackDeadline:
		return r.putBackDeadline(ctx, w)
	}
	return fault.Terminalf(backupsv1alpha1.ReasonInternalError, "row %s asks for action %q, which nobody carries out", d.Row, d.Action)
}

func (r *Reconciler) holdJob(ctx context.Context, w *world) error {
	before := w.job.DeepCopy()
	controllerutil.AddFinalizer(w.job, backupsv1alpha1.RestoreFinalizer)
	return r.patchJob(ctx, w, before)
}

// letGo also removes the finalizers of Cozystack's driver from a deleted job: nobody else is there to do it.
func (r *Reconciler) letGo(ctx context.Context, w *world) error {
	before := w.job.DeepCopy()
	controllerutil.RemoveFinalizer(w.job, backupsv1alpha1.RestoreFinalizer)
	if w.seen.Job.Deleting {
		controllerutil.RemoveFinalizer(w.job, backupsv1alpha1.CozystackCleanupFinalizer)
		controllerutil.RemoveFinalizer(w.job, backupsv1alpha1.CozystackVeleroCleanupFinalizer)
	}
	return client.IgnoreNotFound(r.patchJob(ctx, w, before))
}

func (r *Reconciler) patchJob(ctx context.Context, w *world, before *backupsv1alpha1.RestoreJob) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, w.job, patch, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("save the RestoreJob's finalizers: %w", err)
	}
	return nil
}

// capture writes the record anew, or brings the captured cluster in it up to date.
func (r *Reconciler) capture(ctx context.Context, w *world) error {
	rec := w.record
	if rec == nil {
		rec = &record.Record{
			Job:         record.Job{Namespace: w.job.Namespace, Name: w.job.Name, UID: w.job.UID},
			Application: w.application(), CreatedAt: metav1.NewTime(r.Now()),
			Source: w.request.source, Revision: w.request.revision, TimeoutSeconds: int64(w.seen.Request.Timeout.Seconds()),
			SpecFrom: w.seen.Request.SpecFrom, EtcdVersion: w.request.version, AllowOtherMinor: w.request.options.AllowOtherMinor,
			TakenAt: w.request.backup.Spec.TakenAt, DryRun: w.request.options.DryRun, KeepConsumers: !w.request.options.RestartConsumers,
			Strategy: w.request.backup.Spec.StrategyRef.Name, Parameters: parametersOf(w.request.backup),
			NoSafety: w.request.options.NoSafety, KeepVolumesSeconds: int64(w.request.options.KeepVolumes.Seconds()),
		}
		rec.HighWater = w.highWater(w.request.older)
		if older := w.request.older; older != nil {
			rec.Supersedes = record.Name(older.Job.UID)
		}
		if err := rec.SetCluster(w.request.spec); err != nil {
			return err
		}
	}
	if w.cluster != nil {
		rec.SpecFrom, rec.Supersedes = record.FromLive, ""
		if err := rec.SetCluster(captureOf(w.cluster)); err != nil {
			return err
		}
	}
	if w.liveUID() != rec.OldUID {
		delete(rec.Steps, record.StepKeep) // other volumes
	}
	rec.OldUID, rec.OldClusterID = "", ""
	if w.cluster != nil {
		rec.OldUID, rec.OldClusterID = w.cluster.GetUID(), w.seen.Cluster.ClusterID
	}
	return r.Records.Save(ctx, rec)
}

// intendSuspend remembers how the release was. A suspension that an earlier restore left behind is not an administrator's.
func (r *Reconciler) intendSuspend(ctx context.Context, w *world) error {
	if err := r.dryRun(ctx, w); err != nil {
		return err
	}
	prior := priorSuspend(w.release.object)
	if leftSuspended(w.release.object) {
		prior = nil
	}
	w.record.Release = &record.Release{Name: w.release.typed.Name, UID: w.release.typed.UID, Suspend: prior}
	w.record.Intend(record.StepSuspend, r.Now())
	return r.Records.Save(ctx, w.record)
}

func priorSuspend(release *unstructured.Unstructured) *bool {
	value, found, err := unstructured.NestedBool(release.Object, "spec", "suspend")
	if err != nil || !found {
		return nil
	}
	return &value
}

func (r *Reconciler) intendDelete(ctx context.Context, w *world) error {
	if err := r.dryRun(ctx, w); err != nil {
		return err
	}
	if again, err := r.overtaken(ctx, w); again || err != nil {
		return err
	}
	if err := r.confirmCopies(ctx, w); err != nil {
		return err
	}
	w.record.Intend(record.StepDelete, r.Now())
	return r.Records.Save(ctx, w.record)
}

func (r *Reconciler) conclude(ctx context.Context, w *world, o OutcomeFacts) error {
	r.Background.stop(w.job.UID)
	w.record.Outcome = &record.Outcome{
		Succeeded: o.Succeeded, Reason: o.Reason, Message: o.Message, Resume: o.Resume, Keep: o.Keep, At: metav1.NewTime(r.Now()),
	}
	return r.Records.Save(ctx, w.record)
}

// refused tells apart what the API server will never accept from what may pass later.
func refused(err error, reason, what string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fault.Terminalf(reason, "%s: %w", what, err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return &fault.Error{Class: fault.Conflict, Err: fmt.Errorf("%s: %w", what, err)}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// refusedCreation knows that a creation finds nothing gone that it was made for: without its namespace or kind it has to wait, and not to look again at once.
func refusedCreation(err error, what string) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return refused(err, backupsv1alpha1.ReasonRecreateRefused, what)
}

// dryRun asks the API server whether it would take the recreated cluster. That one is there already is the pass: everything else was checked before.
func (r *Reconciler) dryRun(ctx context.Context, w *world) error {
	err := r.Client.Create(ctx, recreated(w.record), client.DryRunAll, client.FieldOwner(FieldManager))
	// The fence of an earlier restore stands until this one sets up its own.
	if apierrors.IsAlreadyExists(err) || (refusedByFence(err) && !w.seen.Lock.Fenced) {
		return nil
	}
	return refusedCreation(err, "the API server would not take the recreated EtcdCluster")
}

// deleteCluster deletes exactly the object that was looked at. The deletion is in the background: in the foreground the object would live on, without its
// members, under an operator that may bring them up again.
func (r *Reconciler) deleteCluster(ctx context.Context, w *world) error {
	if err := r.proveFence(ctx, w); err != nil {
		return err
	}
	uid := w.cluster.GetUID()
	err := r.Client.Delete(ctx, w.cluster, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return refused(err, backupsv1alpha1.ReasonDeleting, "delete the EtcdCluster")
}

func (r *Reconciler) recreate(ctx context.Context, w *world) error {
	err := r.Client.Create(ctx, recreated(w.record), client.FieldOwner(FieldManager))
	return refusedCreation(err, "recreate the EtcdCluster")
}

func (r *Reconciler) own(ctx context.Context, w *world) error {
	after := w.cluster.DeepCopy()
	after.SetManagedFields(wantedFields(w.cluster, w.record))
	return r.patchCluster(ctx, w, after, "give the fields of the EtcdCluster back to their owners")
}

func (r *Reconciler) putBackDeadline(ctx context.Context, w *world) error {
	after := w.cluster.DeepCopy()
	if captured, set := capturedDeadline(w.record); set {
		if err := unstructured.SetNestedField(after.Object, captured, "spec", "progressDeadlineSeconds"); err != nil {
			return err
		}
	} else {
		unstructured.RemoveNestedField(after.Object, "spec", "progressDeadlineSeconds")
	}
	return r.patchCluster(ctx, w, after, "put the EtcdCluster's spec.progressDeadlineSeconds back")
}

func (r *Reconciler) patchCluster(ctx context.Context, w *world, after *unstructured.Unstructured, what string) error {
	patch := client.MergeFromWithOptions(w.cluster, client.MergeFromWithOptimisticLock{})
	return refused(r.Client.Patch(ctx, after, patch, client.FieldOwner(FieldManager)), backupsv1alpha1.ReasonInternalError, what)
}
