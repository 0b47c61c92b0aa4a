package restorejob

import (
	"fmt"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// reversibleRows apply from the capture to the recorded intent to delete. Each end among them resumes the release and leaves the live cluster as it was.
var reversibleRows = []Row{
	{RowAbort, func(s Seen) bool { return reversible(s) && s.Job.Deleting }, abort},
	{RowAbortNamespace, func(s Seen) bool { return reversible(s) && s.Namespace.Terminating }, abortNamespace},
	{RowAbortRelease, func(s Seen) bool { return reversible(s) && s.releaseGoing() }, abortRelease},
	{RowAbortCluster, func(s Seen) bool { return reversible(s) && s.Cluster != nil && s.Cluster.Deleting }, abortCluster},
	{RowAbortElsewhere, func(s Seen) bool { return reversible(s) && s.Release != nil && s.Release.Elsewhere != "" }, leftAsItIs(refuseForeignRelease)},
	{RowAbortUnsafe, func(s Seen) bool { return reversible(s) && s.Release != nil && s.Release.Unsafe != "" }, leftAsItIs(refuseUnsafeRelease)},
	{RowAbortParked, func(s Seen) bool { return reversible(s) && s.Record.Parked }, leftAsItIs(refuseParked)},
	{RowUnfenced, func(s Seen) bool { return reversible(s) && s.Expired() && s.Lock.Fenced && !s.Gates.Fenced }, unfenced},
	{RowExpiredReversible, func(s Seen) bool { return reversible(s) && s.Expired() }, expiredReversible},
	{RowAwaitLock, func(s Seen) bool { return reversible(s) && s.behind() }, queue},
	{RowLockAgain, func(s Seen) bool { return reversible(s) && !s.Lock.Mine }, takeLock},
	{RowRecapture, func(s Seen) bool { return reversible(s) && s.stale() }, recapture},
	{RowAnnounce, func(s Seen) bool { return reversible(s) && s.Job.Announced != s.Record.SHA256 }, announce},
	{RowAwaitProof, func(s Seen) bool { return reversible(s) && !s.Gates.Proven && s.Working }, awaitProof},
	{RowProve, func(s Seen) bool { return reversible(s) && !s.Gates.Proven }, prove},
	{RowReport, func(s Seen) bool { return reversible(s) && s.mayReport() }, writeReport},
	{RowUnfit, func(s Seen) bool { return reversible(s) && s.Unfit != nil }, unfit},
	{RowDryRun, func(s Seen) bool { return reversible(s) && s.Record.DryRun }, endDryRun},
	{RowIntendPrepare, func(s Seen) bool { return reversible(s) && s.Record.PreparedKey == "" }, intendPrepare},
	{RowAwaitPrepared, func(s Seen) bool { return reversible(s) && !s.Gates.Prepared && s.Working }, awaitPrepared},
	{RowPrepare, func(s Seen) bool { return reversible(s) && !s.Gates.Prepared }, prepare},
}

// suspensionRows pause Flux once everything that takes long is done.
var suspensionRows = []Row{
	{RowIntendSuspend, func(s Seen) bool { return reversible(s) && s.Release != nil && !s.Record.SuspendIntended }, intendSuspend},
	{RowSuspend, func(s Seen) bool { return reversible(s) && s.Release != nil && !s.held() }, suspend},
	{RowWaitIdle, func(s Seen) bool { return reversible(s) && s.Release != nil && s.Release.Busy }, waitIdle},
}

// pointRows lead to the point of no return.
var pointRows = []Row{
	{RowFence, func(s Seen) bool { return reversible(s) && !s.Lock.Fenced }, fence},
	{RowAwaitFence, func(s Seen) bool { return reversible(s) && !s.Gates.Fenced }, awaitFence},
	{RowIntendDelete, reversible, intendDelete},
}

func reversible(s Seen) bool { return s.Record != nil && !decided(s) && !s.Record.DeleteIntended }

// stale tells that the record no longer holds the live cluster: it was edited, replaced, created or removed since.
func (s Seen) stale() bool {
	if s.Cluster == nil {
		return s.Record.OldUID != ""
	}
	return s.Cluster.UID != s.Record.OldUID || !s.Cluster.Captured
}

// leftAsItIs ends a restore for what would have refused it at the start, but came up while it was prepared.
func leftAsItIs(refusal func(Seen) Decision) func(Seen) Decision {
	return func(s Seen) Decision {
		d := refusal(s)
		return undone(d.Reason, "%s. The cluster was left as it is", d.Message)
	}
}

func abort(Seen) Decision {
	return undone(backupsv1alpha1.ReasonAborted, "the RestoreJob was deleted before anything else was: the cluster was left as it is")
}

func abortNamespace(Seen) Decision {
	return undone(backupsv1alpha1.ReasonAborted, "the namespace is being deleted: the restore stopped before it deleted anything")
}

func abortRelease(Seen) Decision {
	return undone(backupsv1alpha1.ReasonAborted, "the HelmRelease was deleted: the restore stopped before it deleted anything")
}

// releaseGoing tells that the release, and with it the application, is being deleted or gone.
func (s Seen) releaseGoing() bool {
	if s.Release == nil {
		return s.Record.HasRelease
	}
	return s.Release.Deleting
}

func abortCluster(s Seen) Decision {
	return undone(backupsv1alpha1.ReasonClusterDeleting, "somebody else is deleting the EtcdCluster%s: the restore stopped before it deleted anything",
		heldBy(s.Cluster.Finalizers))
}

func expiredReversible(s Seen) Decision {
	trouble := ""
	if s.Job.Trouble != "" {
		trouble = fmt.Sprintf(" (%s)", s.Job.Trouble)
	}
	return undone(backupsv1alpha1.ReasonDeadlineExceeded, "the restore did not come to the deletion within %s%s: the cluster was left as it is", s.timeout(), trouble)
}

func recapture(Seen) Decision {
	return intend(ActionCapture, backupsv1alpha1.ReasonCapturing, "the cluster was changed since it was captured: capturing it again")
}

func announce(s Seen) Decision {
	return intend(ActionAnnounce, backupsv1alpha1.ReasonCapturing, "the cluster's spec is captured, sha256 %s", s.Record.SHA256)
}

const (
	proving   = "fetching and verifying the artifact"
	preparing = "preparing a copy of the artifact"
)

func awaitProof(Seen) Decision {
	return wait(recheckWork, backupsv1alpha1.ReasonProving, proving)
}

func prove(Seen) Decision {
	return do(ActionProve, backupsv1alpha1.ReasonProving, proving)
}

func unfit(s Seen) Decision {
	return undone(s.Unfit.Reason, "%s: the cluster was left as it is", s.Unfit.Message)
}

func intendPrepare(Seen) Decision {
	return intend(ActionIntendPrepare, backupsv1alpha1.ReasonPreparing, "asking the members for their revisions")
}

func awaitPrepared(Seen) Decision {
	return wait(recheckWork, backupsv1alpha1.ReasonPreparing, preparing)
}

func prepare(Seen) Decision {
	return do(ActionPrepare, backupsv1alpha1.ReasonPreparing, preparing)
}

func intendSuspend(s Seen) Decision {
	return intend(ActionIntendSuspend, backupsv1alpha1.ReasonSuspending, "suspending HelmRelease %q", s.Release.Name)
}

func suspend(s Seen) Decision {
	return do(ActionSuspend, backupsv1alpha1.ReasonSuspending, "suspending HelmRelease %q", s.Release.Name)
}

func waitIdle(s Seen) Decision {
	return wait(recheck, backupsv1alpha1.ReasonSuspending, "HelmRelease %q is suspended, but an action that began before is still under way", s.Release.Name)
}

func intendDelete(Seen) Decision {
	return intend(ActionIntendDelete, backupsv1alpha1.ReasonDeleting, "deleting the EtcdCluster")
}
