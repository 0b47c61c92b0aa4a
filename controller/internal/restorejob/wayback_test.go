package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/quorum"
)

var (
	healthy = quorum.Verdict{ReadyVoters: 3, Voters: 3, Needed: 2}
	ill     = quorum.Verdict{ReadyVoters: 1, Voters: 3, Needed: 2}
)

// uncovered is the state in which only the safety copy is missing.
func uncovered() Seen {
	s := captured()
	s.Gates.SafetyCopied, s.Quorum = false, healthy
	return s
}

func asked() Seen {
	s := uncovered()
	s.Safety = SafetyFacts{Decided: true, Name: "again-1", Backup: "again"}
	return s
}

func stored() Seen {
	s := asked()
	s.Safety.Exists, s.Safety.Complete, s.Safety.Stored = true, true, true
	return s
}

func safetyCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, reason}
	}
	kept := func(s *Seen) { s.Safety.Key = "p/s.prepared-1.db" }
	return []decideCase{
		at(RowAwaitQuorum, "a moment's weakness", Wait, "", backupsv1alpha1.ReasonWaitingForQuorum, uncovered(), func(s *Seen) {
			s.Quorum, s.Job.StartedAt = ill, now.Add(-time.Second)
		}),
		at(RowSkipSafety, "no quorum", Intend, ActionSkipSafety, backupsv1alpha1.ReasonSafetySnapshotSkipped, uncovered(), func(s *Seen) { s.Quorum = ill }),
		at(RowSkipSafety, "no cluster", Intend, ActionSkipSafety, "", uncovered(), func(s *Seen) {
			s.Cluster, s.Record.OldUID, s.Job.StartedAt = nil, "", now.Add(-time.Second)
		}),
		at(RowIntendSafety, "healthy", Intend, ActionIntendSafety, "", uncovered(), func(*Seen) {}),
		at(RowIntendSafety, "healthy at once", Intend, ActionIntendSafety, "", uncovered(), func(s *Seen) { s.Job.StartedAt = now.Add(-time.Second) }),
		at(RowSafetyFailed, "the operator says so", Intend, ActionConclude, backupsv1alpha1.ReasonSafetySnapshotFailed, asked(), func(s *Seen) { s.Safety.Problem = "it failed" }),
		at(RowRequestSafety, "asked for", Do, ActionRequestSafety, backupsv1alpha1.ReasonSnapshotRunning, asked(), func(*Seen) {}),
		at(RowAwaitSafety, "under way", Wait, "", backupsv1alpha1.ReasonSnapshotRunning, asked(), func(s *Seen) { s.Safety.Exists, s.Safety.Detail = true, "JobRunning" }),
		at(RowStoreSafety, "complete", Do, ActionStoreSafety, "", asked(), func(s *Seen) { s.Safety.Exists, s.Safety.Complete = true, true }),
		at(RowProveSafety, "stored", Do, ActionProveSafety, backupsv1alpha1.ReasonProving, stored(), func(*Seen) {}),
		at(RowProveSafety, "stored, and the snapshot is gone", Do, ActionProveSafety, "", stored(), func(s *Seen) { s.Safety.Exists, s.Safety.Complete = false, false }),
		at(RowAwaitSafetyProof, "proof under way", Wait, "", backupsv1alpha1.ReasonProving, stored(), func(s *Seen) { s.Working = true }),
		at(RowPrepareSafety, "proven", Do, ActionPrepareSafety, backupsv1alpha1.ReasonPreparing, stored(), func(s *Seen) { s.Safety.Proven = true }),
		at(RowAwaitSafetyCopy, "preparation under way", Wait, "", backupsv1alpha1.ReasonPreparing, stored(), func(s *Seen) { s.Safety.Proven, s.Working = true, true }),
		at(RowAbort, "deleted while the snapshot runs", Intend, ActionConclude, "", asked(), func(s *Seen) { s.Job.Deleting = true }),
		at(RowExpiredReversible, "never a hang", Intend, ActionConclude, "", asked(), func(s *Seen) { s.Now = now.Add(2 * time.Hour) }),
		at(RowDiscardSafety, "it was not needed", Do, ActionDiscardSafety, "", finished3(okPhase, good), kept),
		at(RowForget, "a seed may still read it", Do, ActionForget, "", finished3(badPhase, OutcomeFacts{}), func(s *Seen) {
			kept(s)
			s.Cluster.StartsFrom, s.Cluster.ClusterID = s.Safety.Key, ""
		}),
		at(RowDropSnapshot, "aborted while it ran", Do, ActionDropSnapshot, "", finished3(badPhase, OutcomeFacts{}), func(s *Seen) { s.Safety = SafetyFacts{Name: "again-1", Exists: true} }),
		at(RowForget, "complete: it stays with the job", Do, ActionForget, "", finished3(badPhase, OutcomeFacts{}), func(s *Seen) { s.Safety = SafetyFacts{Exists: true, Complete: true} }),
		at(RowForget, "not ours, or failed: it stays to be looked at", Do, ActionForget, "", finished3(badPhase, OutcomeFacts{}), func(s *Seen) {
			s.Safety = SafetyFacts{Exists: true, Problem: "failed"}
		}),
	}
}

func volumeCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, ""}
	}
	return []decideCase{
		at(RowIntendKeep, "wanted", Intend, ActionIntendKeep, captured(), func(s *Seen) { s.Volumes.Wanted = true }),
		at(RowKeepVolume, "one after the other", Do, ActionKeepVolume, captured(), func(s *Seen) { s.Volumes = VolumeFacts{Wanted: true, Intended: true, Loose: []string{"a"}} }),
		at(RowIntendDelete, "all are kept", Intend, ActionIntendDelete, captured(), func(s *Seen) { s.Volumes = VolumeFacts{Wanted: true, Intended: true, Kept: []string{"a"}} }),
		at(RowGiveVolumesBack, "not deleted after all", Do, ActionGiveVolumesBack, captured(), func(s *Seen) {
			s.Record.Outcome, s.Volumes.Kept = &OutcomeFacts{Resume: true, Reason: "Aborted", Message: "x"}, []string{"a"}
		}),
		at(RowResume, "the cluster is gone, so its volumes stay", Do, ActionResume, ended3(good), func(s *Seen) { s.Cluster.DeadlineRaised, s.Volumes.Kept = false, []string{"a"} }),
	}
}

// covered is a restored cluster with a way back.
func covered() Seen {
	s := whole3()
	s.Safety = SafetyFacts{Decided: true, Name: "again-1", Backup: "again", Key: "p/s.prepared-1.db", Exists: true, Complete: true, Stored: true, Proven: true, Prepared: true}
	return s
}

// returning is a rollback that has been announced, with the cluster that took the failed one's place.
func returning() Seen {
	s := covered()
	s.Record.RollbackAt, s.Record.Cause, s.Record.OldUID, s.Record.OldClusterID = now.Add(-time.Second), "it failed", "failed", ""
	s.Job.RollbackShown = true
	return s
}

func rollbackCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, reason}
	}
	late := now.Add(2 * time.Hour)
	givenUp := func(s *Seen) {
		s.Cluster.BootstrapFailed, s.Cluster.ClusterID, s.Cluster.Reconciled = "late", "", false
	}
	noQuorum := func(s *Seen) { s.Now, s.Cluster.ClusterID, s.Members = late, "", nil }
	wrong := func(s *Seen) { s.Now = late; s.Members[2].Etcd.Hash = 8 }
	failed := func(s *Seen) {
		s.Cluster = &ClusterFacts{UID: "failed", Failed: true, Owned: true}
	}
	all := func(s *Seen, change func(*EtcdFacts)) {
		for i := range s.Members {
			change(&s.Members[i].Etcd)
		}
	}
	return []decideCase{
		at(RowRollBack, "given up", Intend, ActionRollBack, backupsv1alpha1.ReasonRollingBack, covered(), givenUp),
		at(RowRollBack, "no quorum", Intend, ActionRollBack, "", covered(), noQuorum),
		at(RowRollBack, "wrong data", Intend, ActionRollBack, "", covered(), wrong),
		at(RowRollBack, "another snapshot's data, at once", Intend, ActionRollBack, "", covered(), func(s *Seen) { all(s, func(e *EtcdFacts) { e.Revision = 9 }) }),
		at(RowRollBack, "other keys, at once", Intend, ActionRollBack, "", covered(), func(s *Seen) { s.Members[0].Etcd.Keys, s.Members[0].Etcd.KeysKnown = 3, true }),
		at(RowVerify, "one member is behind", Wait, "", "", covered(), func(s *Seen) { s.Members[0].Etcd.Revision = 9 }),
		at(RowVerify, "one member does not answer", Wait, "", "", covered(), func(s *Seen) {
			all(s, func(e *EtcdFacts) { e.Revision = 9 })
			s.Members[1].Etcd.Error = "refused"
		}),
		at(RowVerify, "another cluster answers", Wait, "", "", covered(), func(s *Seen) { all(s, func(e *EtcdFacts) { e.Revision, e.ClusterID = 9, "a1" }) }),
		at(RowWaitServing, "not every member is there", Wait, "", "", covered(), func(s *Seen) {
			all(s, func(e *EtcdFacts) { e.Revision = 9 })
			s.Cluster.Reconciled = false
		}),
		at(RowVerify, "without a way back", Wait, "", "", whole3(), func(s *Seen) { all(s, func(e *EtcdFacts) { e.Revision = 9 }) }),
		at(RowRollbackFailed, "another snapshot's data again, at once", Intend, ActionConclude, "", returning(), func(s *Seen) { all(s, func(e *EtcdFacts) { e.Revision = 9 }) }),
		at(RowRollBack, "corrupt data", Intend, ActionRollBack, "", covered(), func(s *Seen) { s.Now = late; s.Members[0].Etcd.Alarms = []string{"memberID:1 alarm:CORRUPT"} }),
		at(RowExpiredMismatch, "a full database holds the right data", Intend, ActionConclude, backupsv1alpha1.ReasonDataMismatch, covered(), func(s *Seen) {
			s.Now = late
			s.Members[0].Etcd.Alarms = []string{"memberID:1 alarm:NOSPACE"}
		}),
		at(RowBootstrapFailed, "it had formed a quorum", Intend, ActionConclude, backupsv1alpha1.ReasonBootstrapFailed, covered(), func(s *Seen) {
			s.Cluster.BootstrapFailed, s.Cluster.Reconciled = "late", false
		}),
		at(RowExpiredIncomplete, "slow, with the right data", Intend, ActionConclude, backupsv1alpha1.ReasonIncomplete, covered(), func(s *Seen) {
			s.Now, s.Members, s.Cluster.Reconciled = late, s.Members[:1], false
		}),
		at(RowVerify, "wrong, but not for long", Wait, "", "", covered(), func(s *Seen) { s.Members[2].Etcd.Hash = 8 }),
		at(RowAnnounceRollback, "first it is said", Intend, ActionAnnounceRollback, backupsv1alpha1.ReasonRollingBack, returning(), func(s *Seen) { failed(s); s.Job.RollbackShown = false }),
		at(RowGiveUp, "the namespace goes", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, returning(), func(s *Seen) { failed(s); s.Namespace.Terminating = true }),
		at(RowDelete, "the failed one", Do, ActionDelete, "", returning(), failed),
		at(RowDelete, "one that an older controller still made", Do, ActionDelete, "", returning(), func(s *Seen) { failed(s); s.Cluster.UID = "other" }),
		at(RowDelete, "deleting the job changes nothing", Do, ActionDelete, "", returning(), func(s *Seen) { failed(s); s.Job.Deleting = true }),
		at(RowForeign, "somebody else's", Intend, ActionConclude, backupsv1alpha1.ReasonForeignCluster, returning(), func(s *Seen) { failed(s); s.Cluster.UID, s.Cluster.Failed = "other", false }),
		at(RowWaitGone, "it goes", Wait, "", backupsv1alpha1.ReasonWaitingForDeletion, returning(), func(s *Seen) { failed(s); s.Cluster.Deleting = true }),
		at(RowRollbackStuck, "it never goes", Intend, ActionConclude, backupsv1alpha1.ReasonRollbackFailed, returning(), func(s *Seen) { failed(s); s.Cluster.Deleting, s.Now = true, late }),
		at(RowRecreate, "gone", Do, ActionRecreate, "", returning(), func(s *Seen) { s.Cluster, s.Members = nil, nil }),
		at(RowOwn, "recreated", Do, ActionOwn, "", returning(), func(s *Seen) { s.Cluster.Owned = false }),
		at(RowRolledBack, "whole", Intend, ActionConclude, backupsv1alpha1.ReasonRolledBack, returning(), func(*Seen) {}),
		at(RowRollbackFailed, "given up again", Intend, ActionConclude, backupsv1alpha1.ReasonRollbackFailed, returning(), givenUp),
		at(RowRollbackFailed, "no quorum again", Intend, ActionConclude, "", returning(), noQuorum),
		at(RowRollbackFailed, "wrong data again", Intend, ActionConclude, "", returning(), wrong),
		at(RowRolledBackSlow, "slow", Intend, ActionConclude, backupsv1alpha1.ReasonRolledBack, returning(), func(s *Seen) {
			s.Now, s.Members, s.Cluster.Reconciled = late, s.Members[:1], false
		}),
		at(RowListConsumers, "its clients have not followed its revisions either", Intend, ActionListConsumers, "", returning(), func(s *Seen) {
			s.Record.Outcome = &OutcomeFacts{Resume: true, Reason: backupsv1alpha1.ReasonRolledBack, Message: "x"}
			s.Cluster.DeadlineRaised, s.Release, s.Lock.Fence = false, nil, false
		}),
		at(RowWaitMembers, "it starts, long after the first deadline", Wait, "", "", returning(), func(s *Seen) {
			s.Now, s.Record.RollbackAt, s.Members, s.Cluster.ClusterID = late, late.Add(-time.Minute), nil, ""
		}),
	}
}

func TestARollbackThatFailsSaysWhatRemains(t *testing.T) {
	s := with(returning(), func(s *Seen) {
		s.Record.Backup, s.Cluster.BootstrapFailed, s.Cluster.ClusterID = "good", "late", ""
	})
	o := Decide(s).Outcome
	require.True(t, o.Keep)
	require.False(t, o.Resume)
	for _, text := range []string{`Backup "good"`, `Backup "again"`, "it failed", "late", "create a new RestoreJob", `HelmRelease "etcd" stays suspended`} {
		require.Contains(t, o.Message, text)
	}
	d, over := Overcome(s, Decision{Row: RowRecreate}, Failure{Terminal: true, Reason: backupsv1alpha1.ReasonRecreateRefused, Message: "invalid"})
	require.True(t, over)
	require.Equal(t, backupsv1alpha1.ReasonRollbackFailed, d.Reason)
	require.Contains(t, d.Message, "invalid")
}
