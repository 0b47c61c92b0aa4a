package restorejob

import (
	"fmt"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Names of the rows about the copy of the live cluster.
const (
	RowAwaitQuorum      = "AwaitQuorum"
	RowSkipSafety       = "SkipSafety"
	RowIntendSafety     = "IntendSafety"
	RowSafetyFailed     = "SafetyFailed"
	RowRequestSafety    = "RequestSafety"
	RowAwaitSafety      = "AwaitSafety"
	RowStoreSafety      = "StoreSafety"
	RowAwaitSafetyProof = "AwaitSafetyProof"
	RowProveSafety      = "ProveSafety"
	RowAwaitSafetyCopy  = "AwaitSafetyCopy"
	RowPrepareSafety    = "PrepareSafety"
	RowDiscardSafety    = "DiscardSafety"
	RowDropSnapshot     = "DropSnapshot"
)

// Actions on the copy of the live cluster.
const (
	ActionSkipSafety    Action = "SkipSafety"    // the record: there is no copy
	ActionIntendSafety  Action = "IntendSafety"  // the record: names of snapshot and Backup
	ActionRequestSafety Action = "RequestSafety" // the EtcdSnapshot
	ActionStoreSafety   Action = "StoreSafety"   // the Backup
	ActionProveSafety   Action = "ProveSafety"   // the Backup's object
	ActionPrepareSafety Action = "PrepareSafety" // the copy that a rollback starts from
	ActionDiscardSafety Action = "DiscardSafety" // the same, at the end
	ActionDropSnapshot  Action = "DropSnapshot"  // an EtcdSnapshot that nobody waits for any more
)

// quorumGrace is how long after the start a cluster without quorum may get it back. A moment's weakness must not cost the safety copy, and a dead cluster
// must not wait.
const quorumGrace = 30 * time.Second

// SafetyFacts is the copy of the live cluster: what the record says of it, and the objects that are there.
type SafetyFacts struct {
	Off     bool   // it is not wanted
	Decided bool   // whether there is one
	Skipped string // why there is none
	Name    string // of the EtcdSnapshot
	Backup  string // of the Backup
	Key     string // of the prepared copy; empty where there is none, or no longer

	Problem  string // why it cannot come about
	Exists   bool   // the EtcdSnapshot
	Complete bool
	Detail   string // the operator's words
	Stored   bool   // the Backup is there and Ready
	Proven   bool
	Prepared bool
}

// safetyRows take a copy of a live cluster that can serve, as a Backup, and prepare it, so that after the deletion no step needs room or luck for it.
var safetyRows = []Row{
	{RowAwaitQuorum, func(s Seen) bool {
		return undecided(s) && s.Cluster != nil && !s.Quorum.CanServe() && s.Now.Before(s.Job.StartedAt.Add(quorumGrace))
	}, awaitQuorum},
	{RowSkipSafety, func(s Seen) bool { return undecided(s) && (s.Cluster == nil || !s.Quorum.CanServe()) }, skipSafety},
	{RowIntendSafety, undecided, intendSafety},
	{RowSafetyFailed, func(s Seen) bool { return uncopied(s) && s.Safety.Problem != "" }, safetyFailed},
	{RowRequestSafety, func(s Seen) bool { return uncopied(s) && !s.Safety.Exists && !s.Safety.Stored }, requestSafety},
	{RowAwaitSafety, func(s Seen) bool { return uncopied(s) && !s.Safety.Complete && !s.Safety.Stored }, awaitSafety},
	{RowStoreSafety, func(s Seen) bool { return uncopied(s) && !s.Safety.Stored }, storeSafety},
	{RowAwaitSafetyProof, func(s Seen) bool { return uncopied(s) && !s.Safety.Proven && s.Working }, awaitSafetyProof},
	{RowProveSafety, func(s Seen) bool { return uncopied(s) && !s.Safety.Proven }, proveSafety},
	{RowAwaitSafetyCopy, func(s Seen) bool { return uncopied(s) && s.Working }, awaitSafetyCopy},
	{RowPrepareSafety, uncopied, prepareSafety},
}

func uncopied(s Seen) bool  { return reversible(s) && !s.Gates.SafetyCopied }
func undecided(s Seen) bool { return uncopied(s) && !s.Safety.Decided }

// safetyCopied is the gate: a copy is prepared, or there is a reason why there is none that still holds.
func (f SafetyFacts) safetyCopied() bool {
	return f.Off || (f.Decided && (f.Skipped != "" || f.Prepared && f.Problem == ""))
}

func awaitQuorum(s Seen) Decision {
	return wait(min(recheck, s.Job.StartedAt.Add(quorumGrace).Sub(s.Now)), backupsv1alpha1.ReasonWaitingForQuorum,
		"no safety snapshot can be taken: %s; waiting %s from the start", s.votes(), quorumGrace)
}

func (s Seen) votes() string {
	return fmt.Sprintf("%d of %d voters are ready, %d are needed", s.Quorum.ReadyVoters, s.Quorum.Voters, s.Quorum.Needed)
}

func skipSafety(s Seen) Decision {
	return intend(ActionSkipSafety, backupsv1alpha1.ReasonSafetySnapshotSkipped, "there is no safety copy: %s", s.whySkipped())
}

func (s Seen) whySkipped() string {
	if s.Cluster == nil {
		return "no EtcdCluster is there"
	}
	return "the live cluster cannot serve, " + s.votes()
}

func intendSafety(Seen) Decision {
	return intend(ActionIntendSafety, backupsv1alpha1.ReasonSnapshotRunning, "taking a safety snapshot of the live cluster")
}

// safetyAdvice ends every message about a safety snapshot that fails.
const safetyAdvice = "remove the cause, or set spec.options.safetySnapshot to false, and create a new RestoreJob"

func safetyFailed(s Seen) Decision {
	return undone(backupsv1alpha1.ReasonSafetySnapshotFailed, "there is no safety copy of the live cluster: %s; %s. The cluster was left as it is", s.Safety.Problem, safetyAdvice)
}

func requestSafety(s Seen) Decision {
	return do(ActionRequestSafety, backupsv1alpha1.ReasonSnapshotRunning, "asking the operator for the safety snapshot %q", s.Safety.Name)
}

func awaitSafety(s Seen) Decision {
	detail := ""
	if s.Safety.Detail != "" {
		detail = " (" + s.Safety.Detail + ")"
	}
	return wait(recheck, backupsv1alpha1.ReasonSnapshotRunning, "safety snapshot %q is with the etcd operator%s", s.Safety.Name, detail)
}

func storeSafety(s Seen) Decision {
	return do(ActionStoreSafety, backupsv1alpha1.ReasonSnapshotRunning, "making Backup %q of the safety snapshot", s.Safety.Backup)
}

func awaitSafetyProof(s Seen) Decision {
	return wait(recheckWork, backupsv1alpha1.ReasonProving, "fetching and verifying the safety copy, Backup %q", s.Safety.Backup)
}

func proveSafety(s Seen) Decision {
	return do(ActionProveSafety, backupsv1alpha1.ReasonProving, "fetching and verifying the safety copy, Backup %q", s.Safety.Backup)
}

func awaitSafetyCopy(s Seen) Decision {
	return wait(recheckWork, backupsv1alpha1.ReasonPreparing, "preparing the safety copy, Backup %q", s.Safety.Backup)
}

func prepareSafety(s Seen) Decision {
	return do(ActionPrepareSafety, backupsv1alpha1.ReasonPreparing, "preparing the safety copy, Backup %q", s.Safety.Backup)
}

func discardSafety(s Seen) Decision {
	return do(ActionDiscardSafety, backupsv1alpha1.ReasonSucceeded, "the prepared safety copy %s is no longer needed", s.Safety.Key)
}

func dropSnapshot(s Seen) Decision {
	return do(ActionDropSnapshot, backupsv1alpha1.ReasonAborted, "nobody waits for the safety snapshot %q any more", s.Safety.Name)
}

// safetyNote names the Backup of the state before, where there is one.
func safetyNote(s Seen) string {
	if !s.Safety.Prepared {
		return ""
	}
	return fmt.Sprintf("; the state before the restore is in Backup %q", s.Safety.Backup)
}
