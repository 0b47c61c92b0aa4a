package restorejob

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// flipRow negates the condition of the row that FLIP_ROW names: a script tries each row in turn, and some test must fail.
func flipRow() {
	name := os.Getenv("FLIP_ROW")
	for i := range Rows {
		if Rows[i].Name == name {
			when := Rows[i].When
			Rows[i].When = func(s Seen) bool { return !when(s) }
		}
	}
}

var now = time.Unix(1_800_000_000, 0)

// sound is a job that can start, with nothing wrong anywhere.
func sound() Seen {
	return Seen{
		Now: now,
		Job: JobFacts{Finalizer: true, CreatedAt: now.Add(-2 * time.Minute)},
		Request: &RequestFacts{
			BackupName: "b", Timeout: time.Hour, SpecFrom: "LiveCluster", Replicas: 3, Version: "3.6.11", Restorable: []string{"3.6"},
			Backup: &BackupFacts{Phase: backupsv1alpha1.BackupReady, Application: "apps.cozystack.io/Etcd/etcd", Etcd: true},
		},
		Lock:    LockFacts{Namespace: "t", Name: "etcd-lock", Limit: 24 * time.Hour, Mine: true},
		Gates:   Gates{Proven: true, Prepared: true, SafetyCopied: true, Fenced: true},
		Release: &ReleaseFacts{Name: "etcd"},
		Cluster: &ClusterFacts{UID: "old", ClusterID: "a1", Replicas: 3, ReadyMembers: 3, Reconciled: true, CreatedAt: now.Add(-time.Hour)},
	}
}

func started() Seen {
	s := sound()
	s.Job = JobFacts{CreatedAt: now.Add(-2 * time.Minute), StartedAt: now.Add(-time.Minute), Phase: backupsv1alpha1.RestoreJobRunning, Finalizer: true}
	return s
}

// captured is the state in which only the deletion is left to be decided.
func captured() Seen {
	s := started()
	s.Request = nil
	s.Record = &RecordFacts{Timeout: time.Hour, SHA256: "5a", OldUID: "old", OldClusterID: "a1", Revision: 10, Keys: 4, PreparedKey: "p/x.prepared-1.db", SuspendIntended: true, HasRelease: true}
	s.Job.Announced, s.Reported = "5a", true
	s.Lock.Fence, s.Lock.Fenced, s.Lock.FencedAt = true, true, now.Add(-time.Second)
	s.Cluster.Captured = true
	s.Release = &ReleaseFacts{Name: "etcd", Suspended: true, Finalizer: true, Marked: true}
	return s
}

func deleted() Seen {
	s := captured()
	s.Record.DeleteIntended, s.Record.DeleteAt = true, now.Add(-time.Second)
	return s
}

func gone() Seen {
	s := deleted()
	s.Cluster = nil
	s.Job.Gone = true
	return s
}

func member(name string) MemberFacts {
	return MemberFacts{Name: name, Ready: true, Voter: true, Etcd: EtcdFacts{Asked: true, ClusterID: "b2", Revision: 12, Hash: 7, HashKnown: true}}
}

func whole3() Seen {
	s := gone()
	s.Cluster = &ClusterFacts{
		UID: "new", Ours: true, Owned: true, DeadlineRaised: true, ClusterID: "b2", Replicas: 3, ReadyMembers: 3, Reconciled: true, CreatedAt: now.Add(-time.Second),
	}
	s.Members, s.Read = []MemberFacts{member("m1"), member("m2"), member("m3")}, ReadFacts{Asked: true}
	return s
}

func ended3(o OutcomeFacts) Seen {
	s := whole3()
	s.Record.Outcome = &o
	return s
}

func finished3(phase backupsv1alpha1.RestoreJobPhase, o OutcomeFacts) Seen {
	s := ended3(o)
	s.Job.Phase = phase
	s.Record.PreparedKey = ""
	s.Lock.Mine = false
	return s
}

// with changes a copy.
func with(s Seen, change func(*Seen)) Seen {
	s.Request, s.Record, s.Release, s.Cluster = clone(s.Request), clone(s.Record), clone(s.Release), clone(s.Cluster)
	if s.Request != nil {
		s.Request.Backup = clone(s.Request.Backup)
	}
	s.Members = slices.Clone(s.Members)
	change(&s)
	return s
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

const (
	okPhase  = backupsv1alpha1.RestoreJobSucceeded
	badPhase = backupsv1alpha1.RestoreJobFailed
)

var (
	good   = OutcomeFacts{Succeeded: true, Resume: true, Reason: backupsv1alpha1.ReasonSucceeded, Message: "well"}
	broken = OutcomeFacts{Keep: true, Reason: backupsv1alpha1.ReasonBootstrapFailed, Message: "not well"}
)

type decideCase struct {
	row    string
	name   string
	seen   Seen
	verb   Verb
	action Action
	reason string
}

func decideCases() []decideCase {
	return slices.Concat(finalCases(), strandedCases(), untouchedCases(), lockCases(), reversibleCases(), safetyCases(), volumeCases(), deletedCases(), reconsiderCases(), refusedLateCases(), rollbackCases(), memberCases(), reportCases(), alarmCases(), consumerCases())
}

func finalCases() []decideCase {
	settled := with(ended3(good), func(s *Seen) { s.Cluster.DeadlineRaised = false })
	settled.Consumers = ConsumersFacts{Listed: true, Told: true}
	fenced := with(settled, func(s *Seen) { s.Release = &ReleaseFacts{Name: "etcd"} })
	resumed := with(fenced, func(s *Seen) { s.Lock.Fence = false })
	return []decideCase{
		{RowFinished, "terminal", with(finished3(okPhase, good), func(s *Seen) { s.Job.Finalizer = false }), Rest, "", ""},
		{RowFinished, "terminal, somebody else's finalizer on a live job", with(finished3(okPhase, good), func(s *Seen) { s.Job.Finalizer = false; s.Job.StockFinalizer = true }), Rest, "", ""},
		{RowDiscard, "the copy has done its work", with(finished3(okPhase, good), func(s *Seen) { s.Record.PreparedKey = "p/x.prepared-1.db" }), Do, ActionDiscard, ""},
		{RowDiscard, "another object is what the cluster starts from", with(finished3(badPhase, broken), func(s *Seen) {
			s.Record.PreparedKey, s.Cluster.StartsFrom, s.Cluster.ClusterID = "p/x.prepared-1.db", "p/x.db", ""
		}), Do, ActionDiscard, ""},
		{RowLetGo, "a seed may still read the copy", with(finished3(badPhase, broken), func(s *Seen) {
			s.Record.PreparedKey, s.Cluster.StartsFrom, s.Cluster.ClusterID = "p/x.prepared-1.db", "p/x.prepared-1.db", ""
		}), Do, ActionLetGo, ""},
		{RowForgetSuperseded, "succeeded from an older record", with(finished3(okPhase, good), func(s *Seen) { s.Record.Superseded = "restore-x" }), Do, ActionForgetSuperseded, ""},
		{RowForget, "succeeded", finished3(okPhase, good), Do, ActionForget, ""},
		{RowForget, "a failed restore leaves the older record", with(finished3(badPhase, OutcomeFacts{Resume: true}), func(s *Seen) { s.Record.Superseded = "restore-x" }), Do, ActionForget, ""},
		{RowLetGo, "the record is kept", finished3(badPhase, broken), Do, ActionLetGo, ""},
		{RowLetGo, "the record is gone", with(finished3(okPhase, good), func(s *Seen) { s.Record = nil }), Do, ActionLetGo, ""},
		{RowLetGo, "only the stock driver's finalizer is left", with(finished3(okPhase, good), func(s *Seen) {
			s.Record, s.Job.Finalizer, s.Job.Deleting, s.Job.StockFinalizer = nil, false, true, true
		}), Do, ActionLetGo, ""},
		{RowGone, "deleted, and nothing holds it", with(sound(), func(s *Seen) { s.Job.Deleting, s.Job.Finalizer, s.Lock.Mine = true, false, false }), Rest, "", ""},
		{RowPutBackDeadline, "deadline first", ended3(good), Do, ActionPutBackDeadline, ""},
		{RowDisown, "then ownership", with(settled, func(s *Seen) { s.Cluster.Owned = false }), Do, ActionOwn, ""},
		{RowResume, "then the release", settled, Do, ActionResume, backupsv1alpha1.ReasonResuming},
		{RowResume, "our mark alone", with(settled, func(s *Seen) { s.Release.Finalizer = false }), Do, ActionResume, ""},
		{RowResume, "our finalizer alone", with(settled, func(s *Seen) { s.Release.Marked = false }), Do, ActionResume, ""},
		{RowLeaveSuspended, "somebody deletes the restored cluster", with(ended3(good), func(s *Seen) { s.Cluster.Deleting = true }), Do, ActionLeaveSuspended, ""},
		{RowLeaveSuspended, "C26 nothing is live: resuming would bring up an empty cluster", with(settled, func(s *Seen) { s.Cluster = nil }), Do, ActionLeaveSuspended, ""},
		{RowLeaveSuspended, "C26 the live cluster never got an ID", with(settled, func(s *Seen) { s.Cluster.ClusterID = "" }), Do, ActionLeaveSuspended, ""},
		{RowResume, "nothing is live, but the release itself goes", with(settled, func(s *Seen) { s.Cluster, s.Release.Deleting = nil, true }), Do, ActionResume, ""},
		{RowLeaveSuspended, "no cluster with a cluster ID", with(settled, func(s *Seen) { s.Record.Outcome = &broken }), Do, ActionLeaveSuspended, ""},
		{RowSucceeded, "at last", resumed, Succeed, "", backupsv1alpha1.ReasonSucceeded},
		{RowSucceeded, "without a release", with(resumed, func(s *Seen) { s.Release, s.Record.HasRelease = nil, false }), Succeed, "", ""},
		{RowFailed, "or not", with(resumed, func(s *Seen) { s.Record.Outcome = &broken; s.Release.Suspended, s.Release.Marked = true, true }), Fail, "", backupsv1alpha1.ReasonBootstrapFailed},
		{RowFailed, "without a release", with(resumed, func(s *Seen) { s.Record.Outcome, s.Record.HasRelease, s.Release = &broken, false, nil }), Fail, "", ""},
	}
}

func untouchedCases() []decideCase {
	refuse := func(row, name, reason string, change func(*Seen)) decideCase {
		return decideCase{row, name, with(sound(), change), Fail, "", reason}
	}
	return []decideCase{
		{RowDeletedUntouched, "deleted with our finalizer", with(started(), func(s *Seen) { s.Job.Deleting, s.Lock.Mine = true, false }), Do, ActionLetGo, ""},
		refuse(RowRefuseOptions, "bad option", "x", func(s *Seen) { s.Request.Options = &Problem{"x", "y"} }),
		refuse(RowRefuseNoBackup, "no Backup", backupsv1alpha1.ReasonBackupNotFound, func(s *Seen) { s.Request.Backup = nil }),
		refuse(RowRefuseOldBackup, "Backup goes", backupsv1alpha1.ReasonBackupNotReady, func(s *Seen) { s.Request.Backup.Deleting = true }),
		refuse(RowRefuseBackup, "Backup pending", backupsv1alpha1.ReasonBackupNotReady, func(s *Seen) { s.Request.Backup.Phase = backupsv1alpha1.BackupPending }),
		refuse(RowRefuseTarget, "C24 another target", backupsv1alpha1.ReasonTargetUnsupported, func(s *Seen) { s.Request.Target = "apps.cozystack.io/Etcd/other" }),
		refuse(RowRefuseKind, "C24 another kind", backupsv1alpha1.ReasonApplicationUnsupported, func(s *Seen) { s.Request.Backup.Etcd = false }),
		refuse(RowRefuseSource, "C24 another place", "m", func(s *Seen) { s.Request.Source = &Problem{"m", "y"} }),
		refuse(RowRefuseNamespace, "C60 namespace goes", backupsv1alpha1.ReasonAborted, func(s *Seen) { s.Namespace.Terminating = true }),
		refuse(RowRefuseCluster, "C28 cluster goes", backupsv1alpha1.ReasonClusterDeleting, func(s *Seen) { s.Cluster.Deleting = true }),
		refuse(RowRefuseRelease, "release goes", backupsv1alpha1.ReasonClusterDeleting, func(s *Seen) { s.Release.Deleting = true }),
		refuse(RowRefuseElsewhere, "release of another namespace", backupsv1alpha1.ReasonReleaseUnsafe, func(s *Seen) { s.Release.Elsewhere = "flux/etcd" }),
		refuse(RowRefuseUnsafe, "C57 forced replace", backupsv1alpha1.ReasonReleaseUnsafe, func(s *Seen) { s.Release.Unsafe = "force" }),
		refuse(RowRefuseNoSpec, "no spec anywhere", backupsv1alpha1.ReasonSpecUnavailable, func(s *Seen) { s.Request.SpecFrom, s.Cluster = "", nil }),
		refuse(RowRefuseParked, "parked", backupsv1alpha1.ReasonClusterParked, func(s *Seen) { s.Request.Replicas = 0 }),
		refuse(RowRefuseVersion, "another minor", backupsv1alpha1.ReasonVersionUnsupported, func(s *Seen) { s.Request.Version = "3.5.21" }),
		refuse(RowRefuseVersion, "a minor that begins alike", backupsv1alpha1.ReasonVersionUnsupported, func(s *Seen) { s.Request.Version = "3.60.1" }),
		{RowStart, "sound", sound(), Intend, ActionStart, backupsv1alpha1.ReasonProgressing},
		{RowStart, "sound without release or cluster", with(sound(), func(s *Seen) { s.Release, s.Cluster = nil, nil }), Intend, ActionStart, ""},
		{RowStart, "an explicit target that is the same", with(sound(), func(s *Seen) { s.Request.Target = s.Request.Backup.Application }), Intend, ActionStart, ""},
		{RowExpiredUntouched, "too late", with(started(), func(s *Seen) { s.Now = now.Add(2 * time.Hour) }), Fail, "", backupsv1alpha1.ReasonDeadlineExceeded},
		{RowCapture, "held", started(), Intend, ActionCapture, backupsv1alpha1.ReasonCapturing},
	}
}

func reversibleCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, change func(*Seen)) decideCase {
		return decideCase{row, name, with(captured(), change), verb, action, reason}
	}
	fresh := func(s *Seen) {
		s.Record.SuspendIntended, s.Record.HasRelease, s.Release = false, false, &ReleaseFacts{Name: "etcd"}
	}
	return []decideCase{
		at(RowAbort, "C26 deleted before the deletion", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, func(s *Seen) { s.Job.Deleting = true }),
		at(RowAbortNamespace, "C60 namespace goes", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, func(s *Seen) { s.Namespace.Terminating = true }),
		at(RowAbortRelease, "release goes", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, func(s *Seen) { s.Release.Deleting = true }),
		at(RowAbortRelease, "release is gone", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, func(s *Seen) { s.Release = nil }),
		at(RowAbortCluster, "somebody else deletes", Intend, ActionConclude, backupsv1alpha1.ReasonClusterDeleting, func(s *Seen) { s.Cluster.Deleting = true }),
		at(RowExpiredReversible, "too late", Intend, ActionConclude, backupsv1alpha1.ReasonDeadlineExceeded, func(s *Seen) { s.Now = now.Add(2 * time.Hour) }),
		at(RowRecapture, "C25 edited since", Intend, ActionCapture, backupsv1alpha1.ReasonCapturing, func(s *Seen) { s.Cluster.Captured = false }),
		at(RowRecapture, "another cluster", Intend, ActionCapture, "", func(s *Seen) { s.Cluster.UID = "other" }),
		at(RowRecapture, "the cluster vanished", Intend, ActionCapture, "", func(s *Seen) { s.Cluster = nil }),
		at(RowAnnounce, "digest not shown", Intend, ActionAnnounce, backupsv1alpha1.ReasonCapturing, func(s *Seen) { s.Job.Announced = "old" }),
		at(RowProve, "proof", Do, ActionProve, "", func(s *Seen) { s.Gates.Proven = false }),
		at(RowAwaitProof, "proof under way", Wait, "", backupsv1alpha1.ReasonProving, func(s *Seen) { s.Gates.Proven, s.Working = false, true }),
		at(RowUnfit, "C30 it does not fit", Intend, ActionConclude, backupsv1alpha1.ReasonQuotaTooSmall, func(s *Seen) {
			s.Unfit = &Problem{Reason: backupsv1alpha1.ReasonQuotaTooSmall, Message: "9 bytes and 8"}
		}),
		at(RowIntendPrepare, "no copy is planned", Intend, ActionIntendPrepare, backupsv1alpha1.ReasonPreparing, func(s *Seen) { s.Record.PreparedKey, s.Gates.Prepared = "", false }),
		at(RowAwaitPrepared, "preparation under way", Wait, "", backupsv1alpha1.ReasonPreparing, func(s *Seen) { s.Gates.Prepared, s.Working = false, true }),
		at(RowPrepare, "preparation", Do, ActionPrepare, "", func(s *Seen) { s.Gates.Prepared = false }),
		at(RowIntendSuspend, "before the suspension", Intend, ActionIntendSuspend, backupsv1alpha1.ReasonSuspending, fresh),
		at(RowSuspend, "suspension lifted", Do, ActionSuspend, "", func(s *Seen) { s.Release.Suspended = false }),
		at(RowSuspend, "finalizer lost", Do, ActionSuspend, "", func(s *Seen) { s.Release.Finalizer = false }),
		at(RowSuspend, "mark lost", Do, ActionSuspend, "", func(s *Seen) { s.Release.Marked = false }),
		at(RowWaitIdle, "an action is under way", Wait, "", backupsv1alpha1.ReasonSuspending, func(s *Seen) { s.Release.Busy = true }),
		at(RowFence, "fence", Do, ActionFence, "", func(s *Seen) { s.Lock.Fenced, s.Gates.Fenced = false, false }),
		at(RowIntendDelete, "all is ready", Intend, ActionIntendDelete, backupsv1alpha1.ReasonDeleting, func(*Seen) {}),
		at(RowIntendDelete, "C26 an administrator's suspension needs no mark", Intend, ActionIntendDelete, "", func(s *Seen) { s.Release.Marked = false; s.Record.WasSuspended = true }),
		at(RowIntendDelete, "no release at all", Intend, ActionIntendDelete, "", func(s *Seen) { s.Release = nil; s.Record.HasRelease = false }),
		at(RowIntendDelete, "no cluster at all", Intend, ActionIntendDelete, "", func(s *Seen) { s.Cluster = nil; s.Record.OldUID = "" }),
	}
}

func deletedCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, reason}
	}
	late := now.Add(2 * time.Hour)
	return []decideCase{
		{RowUnread, "neither request nor record", Seen{Now: now}, Wait, "", ""},
		at(RowGiveUp, "C60 namespace goes", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, gone(), func(s *Seen) { s.Namespace.Terminating = true }),
		at(RowGiveUp, "release goes", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, gone(), func(s *Seen) { s.Release.Deleting = true }),
		at(RowGiveUp, "release is gone", Intend, ActionConclude, backupsv1alpha1.ReasonAborted, gone(), func(s *Seen) { s.Release = nil }),
		at(RowSuspendAgain, "somebody resumed it", Do, ActionSuspend, "", gone(), func(s *Seen) { s.Release.Suspended = false }),
		at(RowDelete, "now", Do, ActionDelete, backupsv1alpha1.ReasonDeleting, deleted(), func(*Seen) {}),
		at(RowDelete, "C26 deleting the job changes nothing", Do, ActionDelete, "", deleted(), func(s *Seen) { s.Job.Deleting = true }),
		at(RowForeign, "C28 somebody else's cluster", Intend, ActionConclude, backupsv1alpha1.ReasonForeignCluster, deleted(), func(s *Seen) { s.Cluster.UID = "x" }),
		at(RowExpiredDeleting, "C28 never gone", Intend, ActionConclude, backupsv1alpha1.ReasonDeadlineExceeded, deleted(), func(s *Seen) { s.Cluster.Deleting = true; s.Now = late }),
		at(RowExpiredDeleting, "C28 leftovers never gone", Intend, ActionConclude, "", gone(), func(s *Seen) { s.Leftovers = []string{"PVC x"}; s.Now = late }),
		at(RowWaitGone, "C28 held", Wait, "", backupsv1alpha1.ReasonWaitingForDeletion, deleted(), func(s *Seen) { s.Cluster.Deleting = true; s.Cluster.Finalizers = []string{"hold"} }),
		at(RowWaitGone, "C28 leftovers", Wait, "", backupsv1alpha1.ReasonWaitingForDeletion, gone(), func(s *Seen) { s.Leftovers = []string{"PersistentVolumeClaim data-x"} }),
		at(RowWaitGone, "somebody deletes the recreated one", Wait, "", "", whole3(), func(s *Seen) { s.Cluster.Deleting = true }),
		at(RowAnnounceGone, "gone, but it is not shown yet", Intend, ActionAnnounceGone, "", gone(), func(s *Seen) { s.Job.Gone = false }),
		at(RowRecreate, "gone", Do, ActionRecreate, backupsv1alpha1.ReasonRecreating, gone(), func(*Seen) {}),
		at(RowRecreate, "C62 however late", Do, ActionRecreate, "", gone(), func(s *Seen) { s.Now = now.Add(24 * time.Hour) }),
		at(RowOwn, "recreated", Do, ActionOwn, "", whole3(), func(s *Seen) { s.Cluster.Owned = false }),
		at(RowBootstrapFailed, "given up", Intend, ActionConclude, backupsv1alpha1.ReasonBootstrapFailed, whole3(), func(s *Seen) {
			s.Cluster.BootstrapFailed, s.Cluster.ClusterID, s.Cluster.Reconciled = "late", "", false
		}),
		at(RowWhole, "whole", Intend, ActionConclude, backupsv1alpha1.ReasonSucceeded, whole3(), func(*Seen) {}),
		at(RowWhole, "whole at the last moment", Intend, ActionConclude, backupsv1alpha1.ReasonSucceeded, whole3(), func(s *Seen) { s.Now = late }),
		at(RowExpiredNoQuorum, "no quorum", Intend, ActionConclude, backupsv1alpha1.ReasonDeadlineExceeded, whole3(), func(s *Seen) { s.Now = late; s.Cluster.ClusterID = ""; s.Members = nil }),
		at(RowExpiredMismatch, "wrong data", Intend, ActionConclude, backupsv1alpha1.ReasonDataMismatch, whole3(), func(s *Seen) { s.Now = late; s.Members[2].Etcd.Hash = 8 }),
		at(RowExpiredIncomplete, "slow", Intend, ActionConclude, backupsv1alpha1.ReasonIncomplete, whole3(), func(s *Seen) { s.Now = late; s.Members = s.Members[:1]; s.Cluster.Reconciled = false }),
		at(RowExpiredIncomplete, "no answer is no wrong answer", Intend, ActionConclude, backupsv1alpha1.ReasonIncomplete, whole3(), func(s *Seen) { s.Now = late; s.Members[1].Etcd = EtcdFacts{Asked: true, Error: "refused"} }),
		at(RowVerify, "C35 members differ", Wait, "", backupsv1alpha1.ReasonVerifying, whole3(), func(s *Seen) { s.Members[1].Etcd.Hash = 8 }),
		at(RowWaitServing, "first member is up", Wait, "", "", whole3(), func(s *Seen) { s.Members = s.Members[:1]; s.Cluster.Reconciled = false }),
		at(RowWaitMembers, "it serves already", Wait, "", backupsv1alpha1.ReasonWaitingForMembers, whole3(), func(s *Seen) {
			s.Members, s.Cluster.Reconciled, s.Job.Serving = s.Members[:1], false, true
		}),
		at(RowWaitMembers, "nobody is up", Wait, "", "", whole3(), func(s *Seen) { s.Members, s.Cluster.ClusterID = nil, "" }),
	}
}

// memberCases are C35: each thing that is missing keeps the restore from succeeding.
func memberCases() []decideCase {
	not := func(row, name string, change func(*Seen)) decideCase {
		return decideCase{row, "C35 " + name, with(whole3(), change), Wait, "", ""}
	}
	each := func(change func(*MemberFacts)) func(*Seen) {
		return func(s *Seen) { change(&s.Members[1]) }
	}
	return []decideCase{
		not(RowWaitServing, "an older generation", func(s *Seen) { s.Cluster.Reconciled = false }),
		not(RowWaitServing, "ready members short", func(s *Seen) { s.Cluster.ReadyMembers = 2 }),
		not(RowWaitServing, "one member missing", func(s *Seen) { s.Members = s.Members[:2] }),
		not(RowWaitServing, "one member too many", func(s *Seen) { s.Members = append(s.Members, member("m4")) }),
		not(RowWaitServing, "a member not ready", each(func(m *MemberFacts) { m.Ready = false })),
		not(RowWaitServing, "a learner by its object", each(func(m *MemberFacts) { m.Voter = false })),
		not(RowWaitServing, "parked meanwhile", func(s *Seen) {
			s.Cluster.Replicas, s.Cluster.ReadyMembers, s.Members = 0, 0, []MemberFacts{member("m1")}
		}),
		not(RowVerify, "a learner by its word", each(func(m *MemberFacts) { m.Etcd.Learner = true })),
		not(RowVerify, "an older revision", each(func(m *MemberFacts) { m.Etcd.Revision = 9 })),
		not(RowVerify, "keys missing", each(func(m *MemberFacts) { m.Etcd.Keys, m.Etcd.KeysKnown = 3, true })),
		not(RowVerify, "an alarm", each(func(m *MemberFacts) { m.Etcd.Alarms = []string{"memberID:1 alarm:NOSPACE "} })),
		not(RowVerify, "two alarms", each(func(m *MemberFacts) {
			m.Etcd.Alarms, m.Etcd.DBSize = []string{"memberID:1 alarm:NOSPACE ", "memberID:1 alarm:CORRUPT "}, 5
		})),
		not(RowVerify, "another cluster", each(func(m *MemberFacts) { m.Etcd.ClusterID = "c3" })),
		not(RowVerify, "the former cluster", each(func(m *MemberFacts) { m.Etcd.ClusterID = "a1" })),
		not(RowVerify, "hash unknown", each(func(m *MemberFacts) { m.Etcd.HashKnown = false })),
		not(RowVerify, "not asked", each(func(m *MemberFacts) { m.Etcd = EtcdFacts{} })),
		not(RowVerify, "no answer", each(func(m *MemberFacts) { m.Etcd.Error = "refused" })),
	}
}

func TestDecide(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range decideCases() {
		covered[c.row] = true
		t.Run(c.row+"/"+c.name, func(t *testing.T) {
			d := Decide(c.seen)
			require.Equal(t, c.row, d.Row)
			require.Equal(t, c.verb, d.Verb)
			require.Equal(t, c.action, d.Action)
			if c.reason != "" {
				require.Equal(t, c.reason, d.Reason)
			}
			if d.Verb != Rest {
				require.NotEmpty(t, d.Message)
				require.Regexp(t, `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`, d.Reason)
			}
		})
	}
	for _, row := range Rows {
		require.True(t, covered[row.Name], "row %s has no case", row.Name)
	}
}

// The rules below hold in every state, reachable or not: a restore cannot be talked into losing data.
func TestDecideKeepsItsRulesInEveryState(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cases := decideCases()
	for i := range 200_000 {
		s := shaken(rng, cases[i%len(cases)].seen)
		d := Decide(s)
		if broken := brokenRule(s, d); broken != "" {
			t.Fatalf("%s: row %s from %+v, record %+v, cluster %+v, release %+v", broken, d.Row, s, s.Record, s.Cluster, s.Release)
		}
	}
}

// brokenRule names the rule that a decision breaks.
func brokenRule(s Seen, d Decision) string {
	held := s.Release == nil || (s.Release.Elsewhere != "" && s.Record != nil && s.Record.DeleteIntended) || (s.Release.Suspended && s.Release.Finalizer)
	switch d.Action {
	case ActionLock:
		if s.Lock.Mine || s.Lock.Ahead != "" || terminal(s) || decided(s) {
			return "the lock is taken by who is next, and only before the end"
		}
	case ActionLiftFence:
		if !s.latched() && !s.releaseGoing() && !s.Namespace.Terminating {
			return "the fence stays while a cluster would be empty"
		}
		if !s.Record.DeleteIntended && !s.Lock.FenceMine {
			return "the fence of another restore stays"
		}
	case ActionUnlock:
		if !s.Lock.Mine || (!terminal(s) && s.Record != nil) {
			return "the lock goes back at the end"
		}
	case ActionDelete:
		if !s.Lock.Fenced || (!s.rollingBack() && (s.outdated() || s.Expired() || !s.Cluster.Captured)) {
			return "nothing is deleted without a fence, or on an intent that is out of date"
		}
		known := s.Cluster.UID == s.Record.OldUID || (s.Cluster.Failed && s.rollingBack())
		if !s.Record.DeleteIntended || !known || s.Cluster.Ours || !held {
			return "only the captured cluster, or one that failed, is deleted, after the intent, under a held release"
		}
	case ActionRollBack:
		if !s.Safety.Prepared || s.rollingBack() || !s.ours() || s.Cluster.Deleting || (s.latched() && s.wrongData() == "") {
			return "a cluster is given up only for a safety copy, and never one that has a quorum and the right data"
		}
	case ActionIntendDelete:
		ready := len(s.Volumes.Loose) == 0 && (s.Volumes.Intended || !s.Volumes.Wanted) && s.Gates == Gates{true, true, true, true} && s.Lock.Mine && s.Lock.Fenced && s.Job.Announced == s.Record.SHA256 && !s.stale()
		if !ready || !s.Reported || s.Record.DryRun || s.Record.Parked || (s.Release != nil && s.Release.Unsafe+s.Release.Elsewhere != "") || s.Unfit != nil || s.Record.PreparedKey == "" || s.Job.Deleting || s.Expired() || !held || (s.Release != nil && s.Release.Busy) {
			return "nothing is deleted before all is ready"
		}
	case ActionRecreate:
		if s.Cluster != nil || !s.Lock.Fenced || !s.Record.DeleteIntended || len(s.Leftovers) > 0 || s.Namespace.Terminating {
			return "nothing is recreated beside what is left"
		}
	case ActionDiscard:
		if s.startsFrom(s.Record.PreparedKey) {
			return "a copy stays while a seed may read it"
		}
	case ActionDiscardSafety:
		if s.startsFrom(s.Safety.Key) {
			return "a safety copy stays while a seed may read it"
		}
	case ActionResume:
		if !s.Release.Deleting && !s.Namespace.Terminating && (!s.Record.Outcome.Resume || !s.latched()) {
			return "a release that stays resumes only by the outcome, and onto a latched cluster"
		}
	case ActionConclude:
		if s.Record.DeleteIntended && d.Outcome.Resume && d.Row != RowGiveUp && !s.latched() {
			return "a release resumes only onto a cluster that formed a quorum"
		}
		if d.Outcome.Succeeded && (d.Row != RowDryRun || !reversible(s)) && (!s.whole() || s.rollingBack()) {
			return "only a whole cluster, or a dry run, is a success, and a rollback is none"
		}
	}
	if broken := brokenReportRule(s, d); broken != "" {
		return broken
	}
	if d.Row == "None" || (terminal(s) && d.Verb != Rest && d.Verb != Do) {
		return "every state has a row, and a final phase stays"
	}
	return ""
}

// shaken changes a few facts at random.
func shaken(rng *rand.Rand, s Seen) Seen {
	if s.Record != nil {
		rec := *s.Record
		s.Record = &rec
		choose(rng, &rec.PreparedKey, "", "p/x.prepared-1.db")
		flip(rng, &rec.Parked, &rec.DryRun, &rec.KeepConsumers, &rec.DeleteIntended, &rec.SuspendIntended, &rec.WasSuspended, &rec.HasRelease, &rec.FromLive)
		if rng.IntN(8) == 0 {
			rec.RollbackAt = now.Add(-time.Second)
		}
	}
	if s.Cluster != nil {
		c := *s.Cluster
		s.Cluster = &c
		flip(rng, &c.Ours, &c.Failed, &c.Owned, &c.Deleting, &c.Captured, &c.DeadlineRaised, &c.Reconciled)
		choose(rng, &c.UID, "old", "new")
		choose(rng, &c.ClusterID, "", "a1", "b2")
		c.Failed = c.Failed && !c.Ours && s.rollingBack()
		choose(rng, &c.StartsFrom, "", "p/x.prepared-1.db", "p/s.prepared-1.db")
		choose(rng, &c.BootstrapFailed, "", "late")
	}
	if s.Release != nil {
		r := *s.Release
		s.Release = &r
		refusedLate(rng, &r)
		flip(rng, &r.Suspended, &r.Finalizer, &r.Marked, &r.Deleting, &r.Busy)
	}
	flip(rng, &s.Job.Deleting, &s.Job.Finalizer, &s.Job.StockFinalizer, &s.Job.Serving, &s.Namespace.Terminating)
	if rng.IntN(8) == 0 {
		s.Unfit = &Problem{"x", "y"}
	}
	flip(rng, &s.Working, &s.Reported, &s.Consumers.Listed, &s.Consumers.Changed, &s.Consumers.Told)
	choose(rng, &s.Consumers.Next, "", "a/b")
	flip(rng, &s.Lock.Mine, &s.Lock.Fence, &s.Lock.FenceMine, &s.Lock.Fenced)
	choose(rng, &s.Lock.Ahead, "", "somebody")
	flip(rng, &s.Working, &s.Safety.Off, &s.Safety.Decided, &s.Safety.Exists, &s.Safety.Complete, &s.Safety.Stored, &s.Safety.Proven, &s.Safety.Prepared)
	choose(rng, &s.Safety.Key, "", "p/s.prepared-1.db")
	choose(rng, &s.Safety.Problem, "", "it failed")
	flip(rng, &s.Volumes.Wanted, &s.Volumes.Intended, &s.Job.RollbackShown)
	if rng.IntN(8) == 0 {
		s.Volumes.Loose = []string{"pv-1"}
	}
	flip(rng, &s.Gates.Proven, &s.Gates.Prepared, &s.Gates.SafetyCopied, &s.Gates.Fenced)
	if rng.IntN(8) == 0 {
		s.Now = now.Add(3 * time.Hour)
	}
	if rng.IntN(8) == 0 {
		s.Cluster = nil
	}
	if rng.IntN(8) == 0 {
		s.Awake = s.Now
	}
	return s
}

func flip(rng *rand.Rand, facts ...*bool) {
	for _, f := range facts {
		if rng.IntN(6) == 0 {
			*f = !*f
		}
	}
}

func choose(rng *rand.Rand, fact *string, values ...string) {
	if rng.IntN(6) == 0 {
		*fact = values[rng.IntN(len(values))]
	}
}
