package restorejob

import (
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// finalRows clean up behind a finished job, and carry out an outcome that is decided. The order matters: what the outside sees is put right before the
// status says so, and the record goes last, since everything else can be found again with it.
var finalRows = []Row{
	{RowFinished, func(s Seen) bool { return terminal(s) && !s.holdsJob() }, nothing},
	{RowDiscard, func(s Seen) bool {
		return terminal(s) && decided(s) && s.Record.PreparedKey != "" && !s.startsFrom(s.Record.PreparedKey)
	}, discard},
	{RowDiscardSafety, func(s Seen) bool {
		return terminal(s) && decided(s) && s.Safety.Key != "" && !s.startsFrom(s.Safety.Key)
	}, discardSafety},
	{RowDropSnapshot, func(s Seen) bool {
		return terminal(s) && decided(s) && s.Safety.Exists && !s.Safety.Complete && s.Safety.Problem == ""
	}, dropSnapshot},
	{RowUnlock, func(s Seen) bool { return s.Lock.Mine && (terminal(s) || (s.Record == nil && s.Job.Deleting)) }, unlock},
	{RowForgetSuperseded, func(s Seen) bool {
		return terminal(s) && decided(s) && s.Record.Outcome.Succeeded && !s.Record.DryRun && s.Record.Superseded != ""
	}, forgetSuperseded},
	{RowForget, func(s Seen) bool { return terminal(s) && decided(s) && !s.Record.Outcome.Keep }, forget},
	{RowLetGo, terminal, letGo},
	{RowGone, func(s Seen) bool { return s.Job.Deleting && !s.holdsJob() && s.Record == nil }, nothing},
	{RowPutBackDeadline, func(s Seen) bool { return decided(s) && s.ours() && !s.Cluster.Deleting && s.Cluster.DeadlineRaised }, putBackDeadline},
	{RowDisown, func(s Seen) bool { return decided(s) && s.ours() && !s.Cluster.Deleting && !s.Cluster.Owned }, own},
	{RowGiveVolumesBack, Seen.unneeded, giveVolumesBack},
	{RowKeepRecord, func(s Seen) bool { return decided(s) && !s.Record.Outcome.Keep && s.lastPlace() }, keepRecord},
	{RowUninstall, func(s Seen) bool { return s.uninstalls() && s.Release.UninstallSince.IsZero() }, uninstall},
	{RowAwaitUninstall, func(s Seen) bool { return s.uninstalls() && s.Now.Before(s.Release.uninstallBy()) }, awaitUninstall},
	{RowUninstallLeft, func(s Seen) bool { return s.uninstalls() && s.Record.Left == "" }, uninstallLeft},
	{RowResume, func(s Seen) bool {
		return decided(s) && s.Release != nil && s.mayResume() && (s.Release.Finalizer || s.Release.Marked)
	}, resume},
	{RowLeaveSuspended, func(s Seen) bool {
		return decided(s) && s.Release != nil && !s.mayResume() && s.Release.Finalizer
	}, leaveSuspended},
	{RowLiftFence, func(s Seen) bool { return decided(s) && s.Lock.Mine && s.Lock.Fence && s.lifts() }, liftFence},
	{RowListConsumers, func(s Seen) bool { return s.restarting() && !s.Consumers.Listed }, listConsumers},
	{RowNoteConsumers, func(s Seen) bool { return s.restarting() && s.Consumers.Changed }, noteConsumers},
	{RowTellConsumers, func(s Seen) bool { return s.restarting() && !s.Consumers.Told }, tellConsumers},
	{RowEvict, func(s Seen) bool { return s.restarting() && s.Consumers.Next != "" }, evict},
	{RowWaitConsumers, func(s Seen) bool { return s.restarting() && s.Consumers.Waiting != "" }, waitConsumers},
	{RowSucceeded, func(s Seen) bool { return decided(s) && s.Record.Outcome.Succeeded }, succeeded},
	{RowFailed, decided, failed},
}

// mayResume tells that the release can go back to work. Without a latched cluster it would bring up an empty one, at once or as soon as the one that somebody
// deletes is gone; a release that is being deleted brings up nothing, however the restore ended.
func (s Seen) mayResume() bool {
	return s.Release.Deleting || s.Namespace.Terminating || (s.Record.Outcome.Resume && s.latched())
}

// lastPlace tells that the captured cluster is neither there nor on purpose on its way out with its application, so that its spec is in the record only.
func (s Seen) lastPlace() bool {
	return s.Record.FromLive && !s.Record.DryRun && !s.latched() && !s.Namespace.Terminating && !s.releaseGoing()
}

// stays says what is not put back although the outcome would have it: nobody expects that of a restore that deleted nothing, or succeeded.
func (s Seen) stays() string {
	note := ""
	if s.Record.Outcome.Resume && s.Release != nil && s.Release.Suspended && !s.mayResume() {
		note = suspendedNote(s) + ": create a new RestoreJob"
	}
	if s.Record.Left != "" {
		note += ". " + s.Record.Left
	}
	return note + s.fenceNote()
}

// holdsJob tells that a finalizer that this controller has to remove keeps the RestoreJob.
func (s Seen) holdsJob() bool { return s.Job.Finalizer || (s.Job.Deleting && s.Job.StockFinalizer) }

// startsFrom tells that a cluster without a cluster ID names a prepared copy: its seed may still have to read it.
func (s Seen) startsFrom(key string) bool {
	return s.Cluster != nil && s.Cluster.ClusterID == "" && s.Cluster.StartsFrom == key
}

func discard(s Seen) Decision {
	return do(ActionDiscard, backupsv1alpha1.ReasonSucceeded, "the prepared copy %s is no longer needed", s.Record.PreparedKey)
}

func nothing(Seen) Decision { return Decision{Verb: Rest} }

func forgetSuperseded(s Seen) Decision {
	return do(ActionForgetSuperseded, backupsv1alpha1.ReasonSucceeded, "record %s is no longer needed", s.Record.Superseded)
}

func forget(Seen) Decision {
	return do(ActionForget, backupsv1alpha1.ReasonSucceeded, "the restore's record is no longer needed")
}

func letGo(Seen) Decision {
	return do(ActionLetGo, backupsv1alpha1.ReasonSucceeded, "the restore no longer holds its RestoreJob")
}

func putBackDeadline(Seen) Decision {
	return do(ActionPutBackDeadline, backupsv1alpha1.ReasonResuming, "putting spec.progressDeadlineSeconds back")
}

func own(Seen) Decision {
	return do(ActionOwn, backupsv1alpha1.ReasonRecreating, "giving the fields of the EtcdCluster back to their owners")
}

func resume(s Seen) Decision {
	return do(ActionResume, backupsv1alpha1.ReasonResuming, "HelmRelease %q goes back to work", s.Release.Name)
}

func keepRecord(Seen) Decision {
	return intend(ActionKeepRecord, backupsv1alpha1.ReasonManualActionRequired, "no cluster is there: the captured spec is kept for a new RestoreJob")
}

func leaveSuspended(s Seen) Decision {
	return do(ActionLeaveSuspended, backupsv1alpha1.ReasonManualActionRequired, "HelmRelease %q stays suspended", s.Release.Name)
}

func succeeded(s Seen) Decision {
	return Decision{Verb: Succeed, Reason: s.Record.Outcome.Reason, Message: s.Record.Outcome.Message + s.stays()}
}

func failed(s Seen) Decision {
	return fail(s.Record.Outcome.Reason, "%s%s", s.Record.Outcome.Message, s.stays())
}
