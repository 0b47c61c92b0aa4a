package restorejob

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// observeFailed tells the cluster that a rollback starts from the safety copy from the one that failed: both carry the mark of this restore.
func (w *world) observeFailed() {
	f, rec := w.seen.Cluster, w.record
	if rec.Rollback == nil || !f.Ours {
		return
	}
	f.Ours = f.UID != string(rec.Rollback.FailedUID) && f.StartsFrom == rec.Start().Key
	f.Failed = !f.Ours
}

func former(rec *record.Record) (uid, clusterID string) {
	u, id := rec.Former()
	return string(u), id
}

func (r *Reconciler) actOnWayBack(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case ActionRollBack:
		return r.rollBack(ctx, w)
	case ActionAnnounceRollback:
		return nil
	}
	return r.actOnVolumes(ctx, w, d)
}

// rollBack records that the restored cluster is given up, before anything happens to it.
func (r *Reconciler) rollBack(ctx context.Context, w *world) error {
	at := metav1.NewTime(r.Now())
	w.record.Rollback = &record.Rollback{
		At: at, FailedUID: w.cluster.GetUID(), FailedClusterID: w.seen.Cluster.ClusterID, Cause: bound(w.seen.failure()),
	}
	w.record.GraceUntil = nil
	w.record.Intend(record.StepRollback, at.Time)
	return r.Records.Save(ctx, w.record)
}

// wayBackConditions say what there is to go back to, and whether it came to that.
func (w *world) wayBackConditions(c status.Conditions) {
	s := w.seen
	switch f := s.Safety; {
	case f.Off:
		c.Set(backupsv1alpha1.ConditionSafetyCopied, metav1.ConditionFalse, backupsv1alpha1.ReasonSafetySnapshotOff, "spec.options.safetySnapshot is false")
	case !f.Decided:
	case f.Skipped != "":
		c.Set(backupsv1alpha1.ConditionSafetyCopied, metav1.ConditionFalse, backupsv1alpha1.ReasonSafetySnapshotSkipped, "there is no safety copy: %s", f.Skipped)
	case f.Prepared || (f.Proven && s.Record.DeleteIntended):
		c.Set(backupsv1alpha1.ConditionSafetyCopied, metav1.ConditionTrue, backupsv1alpha1.ReasonSafetySnapshotStored, "Backup %q holds the state before the restore", f.Backup)
	default:
		c.Set(backupsv1alpha1.ConditionSafetyCopied, metav1.ConditionFalse, backupsv1alpha1.ReasonSnapshotRunning, "safety snapshot %q is under way", f.Name)
	}
	if !s.rollingBack() {
		return
	}
	reason, message, back := backupsv1alpha1.ReasonRollingBack, s.Record.Cause, metav1.ConditionFalse
	if o := s.Record.Outcome; o != nil {
		reason, message = o.Reason, o.Message
	}
	if reason == backupsv1alpha1.ReasonRolledBack {
		back = metav1.ConditionTrue
	}
	c.Set(backupsv1alpha1.ConditionRolledBack, back, reason, "%s", message)
	// These two are about the data that were to be restored, and those are not there.
	c.Set(backupsv1alpha1.ConditionServing, metav1.ConditionFalse, reason, "%s", message)
	c.Set(backupsv1alpha1.ConditionWhole, metav1.ConditionFalse, reason, "%s", message)
}

// etcdVersion is that of the captured cluster.
func (w *world) etcdVersion() string {
	spec, _ := w.record.Cluster["spec"].(map[string]any)
	version, _ := spec["version"].(string)
	return version
}
