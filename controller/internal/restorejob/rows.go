package restorejob

import (
	"fmt"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Times between two looks where a watch is only expected, and where no watch can tell.
const (
	recheck     = 30 * time.Second
	recheckEtcd = 500 * time.Millisecond
	// recheckUnready is for members that are not ready and may say why.
	recheckUnready = 2 * time.Second
	// DefaultTimeout of a whole restore.
	DefaultTimeout = 30 * time.Minute
)

// Names of the rows.
const (
	RowFinished          = "Finished"
	RowDiscard           = "Discard"
	RowForgetSuperseded  = "ForgetSuperseded"
	RowUnlock            = "Unlock"
	RowForget            = "Forget"
	RowLetGo             = "LetGo"
	RowGone              = "Gone"
	RowPutBackDeadline   = "PutBackDeadline"
	RowDisown            = "Disown"
	RowResume            = "Resume"
	RowLeaveSuspended    = "LeaveSuspended"
	RowKeepRecord        = "KeepRecord"
	RowLiftFence         = "LiftFence"
	RowListConsumers     = "ListConsumers"
	RowNoteConsumers     = "NoteConsumers"
	RowTellConsumers     = "TellConsumers"
	RowEvict             = "Evict"
	RowWaitConsumers     = "WaitConsumers"
	RowSucceeded         = "Succeeded"
	RowFailed            = "Failed"
	RowDeletedUntouched  = "DeletedUntouched"
	RowRefuseOptions     = "RefuseOptions"
	RowRefuseNoBackup    = "RefuseNoBackup"
	RowRefuseOldBackup   = "RefuseDeletingBackup"
	RowRefuseBackup      = "RefuseUnreadyBackup"
	RowRefuseTarget      = "RefuseTarget"
	RowRefuseKind        = "RefuseKind"
	RowRefuseSource      = "RefuseSource"
	RowRefuseNamespace   = "RefuseNamespace"
	RowRefuseCluster     = "RefuseDeletingCluster"
	RowRefuseRelease     = "RefuseDeletingRelease"
	RowRefuseElsewhere   = "RefuseForeignRelease"
	RowRefuseUnsafe      = "RefuseUnsafeRelease"
	RowRefuseNoSpec      = "RefuseNoSpec"
	RowRefuseParked      = "RefuseParked"
	RowRefuseVersion     = "RefuseVersion"
	RowQueueLimit        = "QueueLimit"
	RowExpiredUntouched  = "ExpiredUntouched"
	RowQueue             = "Queue"
	RowHoldJob           = "HoldJob"
	RowLock              = "Lock"
	RowStart             = "Start"
	RowCapture           = "Capture"
	RowAbort             = "Abort"
	RowAbortNamespace    = "AbortNamespace"
	RowAbortRelease      = "AbortRelease"
	RowAbortCluster      = "AbortCluster"
	RowAbortElsewhere    = "AbortForeignRelease"
	RowAbortUnsafe       = "AbortUnsafeRelease"
	RowAbortParked       = "AbortParked"
	RowUnfenced          = "Unfenced"
	RowExpiredReversible = "ExpiredReversible"
	RowAwaitLock         = "AwaitLock"
	RowLockAgain         = "LockAgain"
	RowRecapture         = "Recapture"
	RowAnnounce          = "Announce"
	RowAwaitProof        = "AwaitProof"
	RowProve             = "Prove"
	RowUnfit             = "Unfit"
	RowReport            = "Report"
	RowDryRun            = "DryRun"
	RowIntendPrepare     = "IntendPrepare"
	RowAwaitPrepared     = "AwaitPrepared"
	RowPrepare           = "Prepare"
	RowIntendSuspend     = "IntendSuspend"
	RowSuspend           = "Suspend"
	RowWaitIdle          = "WaitIdle"
	RowFence             = "Fence"
	RowAwaitFence        = "AwaitFence"
	RowIntendDelete      = "IntendDelete"
	RowUnread            = "Unread"
	RowReconsider        = "Reconsider"
	RowGiveUp            = "GiveUp"
	RowExtend            = "Extend"
	RowFenceAgain        = "FenceAgain"
	RowSuspendAgain      = "SuspendAgain"
	RowDelete            = "Delete"
	RowForeign           = "Foreign"
	RowExpiredDeleting   = "ExpiredDeleting"
	RowWaitGone          = "WaitGone"
	RowAnnounceGone      = "AnnounceGone"
	RowRecreate          = "Recreate"
	RowOwn               = "Own"
	RowBootstrapFailed   = "BootstrapFailed"
	RowDisarm            = "Disarm"
	RowWhole             = "Whole"
	RowExpiredMismatch   = "ExpiredMismatch"
	RowExpiredIncomplete = "ExpiredIncomplete"
	RowExpiredNoQuorum   = "ExpiredNoQuorum"
	RowWaitServing       = "WaitServing"
	RowVerify            = "Verify"
	RowWaitMembers       = "WaitMembers"
)

// Rows is the table of states, in the order in which they are tried.
var Rows = concat(finalRows, untouchedRows, reversibleRows, safetyRows, suspensionRows, volumeRows, pointRows, deletedRows)

func concat(parts ...[]Row) []Row {
	var all []Row
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func do(a Action, reason, format string, args ...any) Decision {
	return Decision{Verb: Do, Action: a, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func intend(a Action, reason, format string, args ...any) Decision {
	return Decision{Verb: Intend, Action: a, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func wait(d time.Duration, reason, format string, args ...any) Decision {
	return Decision{Verb: Wait, Recheck: d, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func fail(reason, format string, args ...any) Decision {
	return Decision{Verb: Fail, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// conclude records how the restore ends; undoing and reporting follow from the record.
func conclude(o OutcomeFacts) Decision {
	return Decision{Verb: Intend, Action: ActionConclude, Reason: o.Reason, Message: o.Message, Outcome: o}
}

// undone ends a restore that has not deleted anything: the release goes back to work.
func undone(reason, format string, args ...any) Decision {
	return conclude(OutcomeFacts{Reason: reason, Message: fmt.Sprintf(format, args...), Resume: true})
}

func terminal(s Seen) bool { return s.Job.Phase.Terminal() }
func decided(s Seen) bool  { return s.Record != nil && s.Record.Outcome != nil }

func start(s Seen) Decision {
	d := intend(ActionStart, backupsv1alpha1.ReasonProgressing, "the restore has started")
	if s.Request.SpecFrom != "" {
		d.Message = fmt.Sprintf("the restore has started; the cluster's spec comes from: %s", s.Request.SpecFrom)
	}
	return d
}
