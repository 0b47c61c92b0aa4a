package restorejob

import (
	"fmt"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// untouchedRows apply while nothing was changed but the job's own status and finalizer: refusals end the job at once and leave nothing to undo.
var untouchedRows = []Row{
	{RowDeletedUntouched, func(s Seen) bool { return s.Record == nil && s.Job.Deleting }, letGo},
	{RowRefuseOptions, func(s Seen) bool { return untouched(s) && s.Request.Options != nil }, refuseOptions},
	{RowRefuseNoBackup, func(s Seen) bool { return untouched(s) && s.Request.Backup == nil }, refuseNoBackup},
	{RowRefuseOldBackup, func(s Seen) bool { return untouched(s) && s.Request.Backup.Deleting }, refuseDeletingBackup},
	{RowRefuseBackup, func(s Seen) bool { return untouched(s) && s.Request.Backup.Phase != backupsv1alpha1.BackupReady }, refuseUnreadyBackup},
	{RowRefuseTarget, func(s Seen) bool {
		return untouched(s) && s.Request.Target != "" && s.Request.Target != s.Request.Backup.Application
	}, refuseTarget},
	{RowRefuseKind, func(s Seen) bool { return untouched(s) && !s.Request.Backup.Etcd }, refuseKind},
	{RowRefuseSource, func(s Seen) bool { return untouched(s) && s.Request.Source != nil }, refuseSource},
	{RowRefuseNamespace, func(s Seen) bool { return untouched(s) && s.Namespace.Terminating }, refuseNamespace},
	{RowRefuseCluster, func(s Seen) bool { return untouched(s) && s.Cluster != nil && s.Cluster.Deleting }, refuseDeletingCluster},
	{RowRefuseRelease, func(s Seen) bool { return untouched(s) && s.Release != nil && s.Release.Deleting }, refuseDeletingRelease},
	{RowRefuseElsewhere, func(s Seen) bool { return untouched(s) && s.Release != nil && s.Release.Elsewhere != "" }, refuseForeignRelease},
	{RowRefuseUnsafe, func(s Seen) bool { return untouched(s) && s.Release != nil && s.Release.Unsafe != "" }, refuseUnsafeRelease},
	{RowRefuseNoSpec, func(s Seen) bool { return untouched(s) && s.Request.SpecFrom == "" }, refuseNoSpec},
	{RowRefuseParked, func(s Seen) bool { return untouched(s) && s.Request.Replicas == 0 }, refuseParked},
	{RowRefuseVersion, func(s Seen) bool { return untouched(s) && !s.versionFits() }, refuseVersion},
	{RowQueueLimit, func(s Seen) bool {
		return untouched(s) && s.behind() && s.Job.StartedAt.IsZero() && !s.Now.Before(s.queueEnd())
	}, queueLimit},
	{RowExpiredUntouched, func(s Seen) bool { return untouched(s) && s.Expired() }, expiredUntouched},
	{RowQueue, func(s Seen) bool { return untouched(s) && s.behind() }, queue},
	{RowHoldJob, func(s Seen) bool { return untouched(s) && !s.Job.Finalizer }, holdJob},
	{RowLock, func(s Seen) bool { return untouched(s) && !s.Lock.Mine }, takeLock},
	{RowStart, func(s Seen) bool { return untouched(s) && s.Job.StartedAt.IsZero() }, start},
	{RowCapture, untouched, capture},
}

func untouched(s Seen) bool { return s.Record == nil && s.Request != nil }

func refuseOptions(s Seen) Decision {
	return fail(s.Request.Options.Reason, "%s", s.Request.Options.Message)
}

func refuseNoBackup(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonBackupNotFound, "spec.backupRef.name: Backup %q is not in this namespace", s.Request.BackupName)
}

func refuseDeletingBackup(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonBackupNotReady, "Backup %q is being deleted", s.Request.BackupName)
}

func refuseUnreadyBackup(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonBackupNotReady, "Backup %q has phase %q, not %s: only a Backup whose artifact was checked can be restored",
		s.Request.BackupName, s.Request.Backup.Phase, backupsv1alpha1.BackupReady)
}

func refuseTarget(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonTargetUnsupported, "spec.targetApplicationRef is %s, but Backup %q is of %s: a restore goes back in place only; leave the field out",
		s.Request.Target, s.Request.BackupName, s.Request.Backup.Application)
}

func refuseKind(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonApplicationUnsupported, "Backup %q is of %s: only %s/%s is restored here", s.Request.BackupName, s.Request.Backup.Application,
		backupsv1alpha1.DefaultApplicationGroup, backupsv1alpha1.EtcdApplicationKind)
}

func refuseSource(s Seen) Decision {
	return fail(s.Request.Source.Reason, "%s", s.Request.Source.Message)
}

func refuseNamespace(Seen) Decision {
	return fail(backupsv1alpha1.ReasonAborted, "the namespace is being deleted")
}

func refuseDeletingCluster(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonClusterDeleting, "the EtcdCluster is being deleted%s: wait until it is gone and create a new RestoreJob", heldBy(s.Cluster.Finalizers))
}

func refuseDeletingRelease(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonClusterDeleting, "HelmRelease %q is being deleted", s.Release.Name)
}

func refuseForeignRelease(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonReleaseUnsafe,
		"the EtcdCluster belongs to HelmRelease %s of another namespace, which is not paused from here: it would bring up an empty cluster", s.Release.Elsewhere)
}

func refuseUnsafeRelease(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonReleaseUnsafe, "HelmRelease %q: %s", s.Release.Name, s.Release.Unsafe)
}

func refuseNoSpec(Seen) Decision {
	return fail(backupsv1alpha1.ReasonSpecUnavailable,
		"no EtcdCluster is there, and neither a record of an earlier restore nor the Backup nor the Helm release holds its spec: install the application first, then restore")
}

func refuseParked(Seen) Decision {
	return fail(backupsv1alpha1.ReasonClusterParked, "the cluster is parked (spec.replicas is 0), and a parked cluster is never bootstrapped: set spec.replicas first")
}

func refuseVersion(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonVersionUnsupported, "spec.version is %s, but the operator can restore only %s (flag --operator-restore-minors): nothing was touched",
		s.Request.Version, strings.Join(s.Request.Restorable, ", "))
}

func expiredUntouched(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonDeadlineExceeded, "the restore did not get ready within %s; nothing was touched", s.timeout())
}

func holdJob(Seen) Decision {
	return do(ActionHoldJob, backupsv1alpha1.ReasonCapturing, "holding the RestoreJob until the restore has ended")
}

func capture(s Seen) Decision {
	return intend(ActionCapture, backupsv1alpha1.ReasonCapturing, "capturing the cluster's spec from: %s", s.Request.SpecFrom)
}

// versionFits tells whether the operator's restore knows the minor of the version that will run.
func (s Seen) versionFits() bool {
	for _, minor := range s.Request.Restorable {
		if strings.HasPrefix(s.Request.Version, minor+".") {
			return true
		}
	}
	return false
}

func heldBy(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(", held by finalizer %s", strings.Join(finalizers, ", "))
}
