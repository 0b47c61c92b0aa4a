package restorejob

import (
	"fmt"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Names of the rows of a rollback. They stand among those after the deletion.
const (
	RowAnnounceRollback = "AnnounceRollback"
	RowRollbackStuck    = "RollbackStuck"
	RowRolledBack       = "RolledBack"
	RowRollbackFailed   = "RollbackFailed"
	RowRolledBackSlow   = "RolledBackIncomplete"
	RowRollBack         = "RollBack"
)

// Actions of a rollback.
const (
	ActionRollBack         Action = "RollBack"         // the record: the failed cluster, and why
	ActionAnnounceRollback Action = "AnnounceRollback" // status: the restored cluster does not count any more
)

func (s Seen) rollingBack() bool { return s.Record != nil && !s.Record.RollbackAt.IsZero() }

// rollable tells that there is a way back: a prepared copy of the state before, and it was not gone yet.
func (s Seen) rollable() bool { return !s.rollingBack() && s.Safety.Prepared }

// failure says why the recreated cluster has to go: it never formed a quorum, or its data are wrong. A quorum with the right data that is merely slow stays.
// What is certain, as nothing heals it, is a failure at once; the rest is one at the deadline.
func (s Seen) failure() string {
	c := s.Cluster
	switch {
	case c.ClusterID == "" && c.BootstrapFailed != "":
		return fmt.Sprintf("the operator gave up on the first member for good: %s%s", c.BootstrapFailed, s.trouble())
	case s.disproved():
		return "the restored data are not as expected: " + s.wrong()
	case !s.Expired():
		return ""
	case c.ClusterID == "":
		return fmt.Sprintf("no quorum formed within %s%s", s.timeout(), s.trouble())
	}
	if wrong := s.wrongData(); wrong != "" {
		return fmt.Sprintf("the restored data are not as expected after %s: %s", s.timeout(), wrong)
	}
	return ""
}

// disproved tells that the data of a whole cluster are wrong for certain: every member is behind the revision that they all started with, or the keys at that
// revision, counted by the cluster as a whole, are not the snapshot's. No time heals that. One member among others can be replaced, an answer from another
// cluster or a hash may be one of a moment, and alarms can be lifted, so that all these have time until the deadline.
func (s Seen) disproved() bool {
	if !s.complete() {
		return false
	}
	behind, miscounted := 0, false
	for _, m := range s.Members {
		e := m.Etcd
		if !e.Asked || e.Error != "" || e.Learner || e.ClusterID != s.Cluster.ClusterID || e.ClusterID == s.Record.OldClusterID {
			return false
		}
		if e.Revision < s.Record.Revision {
			behind++
		}
		miscounted = miscounted || (e.KeysKnown && e.Keys != s.Record.Keys)
	}
	return behind == len(s.Members) || (behind == 0 && miscounted)
}

// wrongData is wrong without the alarms that say nothing about the data, such as NOSPACE.
func (s Seen) wrongData() string {
	members := make([]MemberFacts, len(s.Members))
	for i, m := range s.Members {
		var alarms []string
		for _, a := range m.Etcd.Alarms {
			if strings.Contains(strings.ToUpper(a), "CORRUPT") {
				alarms = append(alarms, a)
			}
		}
		m.Etcd.Alarms = alarms
		members[i] = m
	}
	s.Members = members
	return s.wrong()
}

func rollBack(s Seen) Decision {
	return intend(ActionRollBack, backupsv1alpha1.ReasonRollingBack, "%s: going back to Backup %q, the state before the restore", bound(s.failure()), s.Safety.Backup)
}

func announceRollback(s Seen) Decision {
	return intend(ActionAnnounceRollback, backupsv1alpha1.ReasonRollingBack, "%s: going back to Backup %q, the state before the restore", s.Record.Cause, s.Safety.Backup)
}

func rolledBack(s Seen) Decision {
	return conclude(OutcomeFacts{Resume: true, Reason: backupsv1alpha1.ReasonRolledBack, Message: fmt.Sprintf(
		"the restore of Backup %q failed (%s), and the cluster was rolled back: all %d members of cluster %s hold the data of Backup %q, taken before the restore. "+
			"Remove the cause and create a new RestoreJob", s.Record.Backup, s.Record.Cause, s.Cluster.Replicas, s.Cluster.ClusterID, s.Safety.Backup)})
}

func rolledBackSlow(s Seen) Decision {
	return conclude(OutcomeFacts{Resume: s.latched(), Reason: backupsv1alpha1.ReasonRolledBack, Message: fmt.Sprintf(
		"the restore of Backup %q failed (%s), and the cluster was rolled back to Backup %q, taken before the restore; it serves but is not whole after %s: %s%s. "+
			"It is kept, and its operator goes on", s.Record.Backup, s.Record.Cause, s.Safety.Backup, s.timeout(), s.progress(), s.trouble())})
}

func rollbackFailed(s Seen) Decision {
	return conclude(rollbackEnd(s, s.failure()))
}

func rollbackStuck(s Seen) Decision {
	return conclude(rollbackEnd(s, fmt.Sprintf("the failed cluster is not gone after %s: %s", s.timeout(), s.remaining())))
}

// rollbackEnd is the end of a rollback that failed as well. Nothing is resumed: whatever is there does not hold the data that anybody wants.
func rollbackEnd(s Seen, why string) OutcomeFacts {
	return OutcomeFacts{Keep: true, Reason: backupsv1alpha1.ReasonRollbackFailed, Message: fmt.Sprintf(
		"the restore of Backup %q failed (%s), and so did the way back to Backup %q, the state before: %s. Remove the cause, delete the EtcdCluster if one is there, and "+
			"create a new RestoreJob for either Backup; the captured spec is kept%s", s.Record.Backup, s.Record.Cause, s.Safety.Backup, bound(why), suspendedNote(s))}
}
