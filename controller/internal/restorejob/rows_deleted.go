package restorejob

import (
	"fmt"
	"strings"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// deletedRows apply from the recorded intent to delete on. Once it is carried out there is no way back, so the deletion of the RestoreJob changes nothing here:
// the restore runs to its end. The last row always applies.
var deletedRows = []Row{
	{RowUnread, func(s Seen) bool { return s.Record == nil }, unread},
	{RowReconsider, Seen.outdated, reconsider},
	{RowGiveUp, func(s Seen) bool { return s.Namespace.Terminating || s.releaseGoing() }, giveUp},
	{RowExtend, Seen.overdue, extend},
	{RowFenceAgain, func(s Seen) bool { return !s.Lock.Fenced || (!s.Lock.Mine && s.Lock.Ahead == "") }, fence},
	{RowSuspendAgain, func(s Seen) bool { return s.Release != nil && s.Release.Elsewhere == "" && !s.held() }, suspend},
	{RowAnnounceRollback, func(s Seen) bool { return s.rollingBack() && !s.Job.RollbackShown }, announceRollback},
	{RowDelete, func(s Seen) bool {
		return s.former() && (s.Cluster.UID == s.Record.OldUID || s.Cluster.Failed) && !s.Cluster.Deleting
	}, deleteCluster},
	{RowForeign, func(s Seen) bool { return s.former() && !s.Cluster.Deleting }, foreign},
	{RowRollbackStuck, func(s Seen) bool { return s.rollingBack() && s.remains() && s.Expired() }, rollbackStuck},
	{RowExpiredDeleting, func(s Seen) bool { return s.remains() && s.Expired() }, expiredDeleting},
	{RowWaitGone, Seen.remains, waitGone},
	{RowAnnounceGone, func(s Seen) bool { return s.Cluster == nil && !s.Job.Gone }, announceGone},
	{RowRecreate, func(s Seen) bool { return s.Cluster == nil }, recreate},
	{RowOwn, func(s Seen) bool { return !s.Cluster.Owned }, own},
	{RowRolledBack, func(s Seen) bool { return s.rollingBack() && s.whole() }, rolledBack},
	{RowRollbackFailed, func(s Seen) bool { return s.rollingBack() && s.failure() != "" }, rollbackFailed},
	{RowRolledBackSlow, func(s Seen) bool { return s.rollingBack() && s.Expired() }, rolledBackSlow},
	{RowRollBack, func(s Seen) bool { return s.rollable() && s.failure() != "" }, rollBack},
	{RowBootstrapFailed, func(s Seen) bool { return s.Cluster.BootstrapFailed != "" }, bootstrapFailed},
	{RowDisarm, Seen.disarms, disarm},
	{RowWhole, Seen.whole, whole},
	{RowExpiredNoQuorum, func(s Seen) bool { return s.Expired() && s.Cluster.ClusterID == "" }, expiredNoQuorum},
	{RowExpiredMismatch, func(s Seen) bool { return s.Expired() && s.wrong() != "" }, expiredMismatch},
	{RowExpiredIncomplete, Seen.Expired, expiredIncomplete},
	{RowVerify, Seen.complete, verify},
	{RowWaitServing, func(s Seen) bool { return s.Cluster.ClusterID != "" && !s.Job.Serving && len(s.Members) > 0 }, waitServing},
	{RowWaitMembers, func(Seen) bool { return true }, waitMembers},
}

// former tells that an EtcdCluster is there that this restore did not create.
func (s Seen) former() bool { return s.Cluster != nil && !s.Cluster.Ours }

// remains tells that something of an earlier cluster, or a cluster that goes away again, is in the way.
func (s Seen) remains() bool {
	if s.Cluster != nil {
		return !s.Cluster.Ours || s.Cluster.Deleting
	}
	return len(s.Leftovers) > 0
}

func unread(Seen) Decision {
	return wait(recheck, backupsv1alpha1.ReasonProgressing, "neither the request nor the record was read")
}

func giveUp(s Seen) Decision {
	what := "the namespace"
	if !s.Namespace.Terminating {
		what = "the HelmRelease"
	}
	return conclude(OutcomeFacts{Reason: backupsv1alpha1.ReasonAborted, Resume: true, Message: fmt.Sprintf(
		"%s was deleted: the former cluster is deleted and nothing is brought back; the Backup is still there", what)})
}

func extend(s Seen) Decision {
	return intend(ActionExtend, backupsv1alpha1.ReasonProgressing, "the deadline passed while no controller was there: the restore has time until %s", s.graceUntil().UTC().Format(time.RFC3339))
}

func deleteCluster(Seen) Decision {
	return do(ActionDelete, backupsv1alpha1.ReasonDeleting, "deleting the EtcdCluster")
}

func foreign(s Seen) Decision {
	o := OutcomeFacts{Reason: backupsv1alpha1.ReasonForeignCluster, Resume: s.latched(), Keep: true}
	o.Message = "somebody else created an EtcdCluster after the former one was deleted, and it does not hold the restored data: delete it and create a new RestoreJob"
	if !o.Resume {
		o.Message += suspendedNote(s)
	}
	return conclude(o)
}

func expiredDeleting(s Seen) Decision {
	return conclude(OutcomeFacts{Reason: backupsv1alpha1.ReasonDeadlineExceeded, Keep: true, Message: fmt.Sprintf(
		"the former cluster is not gone after %s: %s. Remove what holds it and create a new RestoreJob for the same Backup%s", s.timeout(), s.remaining(), suspendedNote(s))})
}

func waitGone(s Seen) Decision {
	return wait(recheck, backupsv1alpha1.ReasonWaitingForDeletion, "waiting until the former cluster is gone: %s", s.remaining())
}

func (s Seen) remaining() string {
	parts := s.Leftovers
	if s.Cluster != nil {
		parts = append([]string{"EtcdCluster" + heldBy(s.Cluster.Finalizers)}, parts...)
	}
	return strings.Join(parts, "; ")
}

func announceGone(s Seen) Decision {
	return intend(ActionAnnounceGone, backupsv1alpha1.ReasonRecreating, "nothing is left of the former cluster %s", s.Record.OldUID)
}

func recreate(Seen) Decision {
	return do(ActionRecreate, backupsv1alpha1.ReasonRecreating, "recreating the EtcdCluster from the snapshot")
}

func bootstrapFailed(s Seen) Decision {
	return conclude(OutcomeFacts{Reason: backupsv1alpha1.ReasonBootstrapFailed, Resume: s.latched(), Keep: !s.latched(), Message: fmt.Sprintf(
		"the operator gave up on the first member for good: %s%s. %s", s.Cluster.BootstrapFailed, s.trouble(), remedy(s))})
}

func expiredNoQuorum(s Seen) Decision {
	return conclude(OutcomeFacts{Reason: backupsv1alpha1.ReasonDeadlineExceeded, Keep: true, Message: fmt.Sprintf(
		"no quorum formed within %s%s. %s", s.timeout(), s.trouble(), remedy(s))})
}

func expiredMismatch(s Seen) Decision {
	return conclude(OutcomeFacts{Reason: backupsv1alpha1.ReasonDataMismatch, Resume: s.latched(), Message: fmt.Sprintf(
		"the restored data are not as expected after %s: %s. The cluster was left as it is: check it, or create a new RestoreJob", s.timeout(), s.wrong())})
}

func expiredIncomplete(s Seen) Decision {
	return conclude(OutcomeFacts{Reason: backupsv1alpha1.ReasonIncomplete, Resume: s.latched(), Message: fmt.Sprintf(
		"the restored cluster serves but is not whole after %s: %s%s%s. It is kept, and its operator goes on", s.timeout(), s.progress(), s.doubt(), s.trouble())})
}

// doubt is what a complete cluster lacks to be whole.
func (s Seen) doubt() string {
	if !s.complete() {
		return ""
	}
	return ", but " + s.mismatch()
}

func whole(s Seen) Decision {
	return conclude(OutcomeFacts{Succeeded: true, Resume: true, Reason: backupsv1alpha1.ReasonSucceeded, Message: fmt.Sprintf(
		"all %d members of cluster %s hold the same data at revision %d%s", s.Cluster.Replicas, s.Cluster.ClusterID, s.revision(), s.keep())})
}

// keep says which Secret is in use from now on.
func (s Seen) keep() string {
	for _, m := range s.Members {
		if m.Credentials != "" {
			return fmt.Sprintf(". Keep Secret %q for as long as member %s lives: its Pod never starts again without it", m.Credentials, m.Name)
		}
	}
	return ""
}

func verify(s Seen) Decision {
	missing := s.mismatch()
	if missing == "" {
		missing = "waiting for the members' answers"
	}
	return wait(recheckEtcd, backupsv1alpha1.ReasonVerifying, "%s", missing)
}

func waitServing(s Seen) Decision {
	again := recheckEtcd
	if !s.anyReady() {
		again = recheckUnready
	}
	return wait(again, backupsv1alpha1.ReasonWaitingForMembers, "%s; waiting for the first answer%s", s.progress(), s.trouble())
}

func waitMembers(s Seen) Decision {
	return wait(recheck, backupsv1alpha1.ReasonWaitingForMembers, "%s%s", s.progress(), s.trouble())
}

func suspendedNote(s Seen) string {
	if s.Release == nil {
		return ""
	}
	return fmt.Sprintf("; HelmRelease %q stays suspended, as it would bring up an empty cluster", s.Release.Name)
}

// remedy says what remains to do where no cluster came up.
func remedy(s Seen) string {
	return "Delete the EtcdCluster and create a new RestoreJob; the captured spec is kept" + safetyNote(s) + suspendedNote(s)
}

func (s Seen) trouble() string {
	if s.SeedTrouble == "" {
		return ""
	}
	return " (" + s.SeedTrouble + ")"
}
