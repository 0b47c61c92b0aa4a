package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

func lockCases() []decideCase {
	ahead := func(s *Seen) {
		s.Lock.Mine, s.Lock.Ahead = false, "RestoreJob \"first\" holds the lock of the application"
	}
	lost := func(s *Seen) { s.Lock.Mine = false }
	pending := func(change ...func(*Seen)) Seen {
		return with(sound(), func(s *Seen) {
			lost(s)
			s.Job.CreatedAt = now.Add(-time.Minute)
			for _, c := range change {
				c(s)
			}
		})
	}
	dayLater := func(s *Seen) { s.Job.CreatedAt = now.Add(-25 * time.Hour) }
	late := func(s *Seen) { s.Now = now.Add(2 * time.Hour) }
	unheld := func(s *Seen) { s.Job.Finalizer = false }
	settled := with(ended3(good), func(s *Seen) {
		s.Cluster.DeadlineRaised, s.Release = false, &ReleaseFacts{Name: "etcd"}
		s.Consumers = ConsumersFacts{Listed: true, Told: true}
	})
	return []decideCase{
		{RowQueue, "C33 another job is ahead", pending(ahead), Wait, "", backupsv1alpha1.ReasonWaitingForLock},
		{RowQueue, "C33 even of a restore that has begun and lost the Lease", with(started(), ahead), Wait, "", backupsv1alpha1.ReasonWaitingForLock},
		{RowQueueLimit, "C33 for a day", pending(ahead, dayLater), Fail, "", backupsv1alpha1.ReasonQueueLimitExceeded},
		{RowHoldJob, "C33 the limit is one of waiting only", pending(dayLater, unheld), Do, ActionHoldJob, backupsv1alpha1.ReasonCapturing},
		{RowHoldJob, "somebody removed the finalizer", with(started(), func(s *Seen) { s.Job.Finalizer = false }), Do, ActionHoldJob, ""},
		{RowLock, "next", pending(), Do, ActionLock, backupsv1alpha1.ReasonWaitingForLock},
		{RowLock, "lost after the start", with(started(), lost), Do, ActionLock, ""},
		{RowUnlock, "ended", with(finished3(okPhase, good), func(s *Seen) { s.Lock.Mine = true }), Do, ActionUnlock, ""},
		{RowUnlock, "refused", with(started(), func(s *Seen) { s.Job.Phase = badPhase }), Do, ActionUnlock, ""},
		{RowUnlock, "deleted before anything else was done", with(started(), func(s *Seen) { s.Job.Deleting = true }), Do, ActionUnlock, ""},
		{RowLockAgain, "somebody deleted the Lease", with(captured(), lost), Do, ActionLock, ""},
		{RowAwaitLock, "and another job was faster", with(captured(), ahead), Wait, "", backupsv1alpha1.ReasonWaitingForLock},
		{RowExpiredReversible, "it is not awaited for ever", with(with(captured(), ahead), late), Intend, ActionConclude, backupsv1alpha1.ReasonDeadlineExceeded},
		{RowAwaitFence, "the API server learns of it", with(captured(), func(s *Seen) { s.Gates.Fenced = false }), Wait, "", backupsv1alpha1.ReasonFencing},
		{RowAwaitFence, "the API server does not", with(captured(), func(s *Seen) { s.Gates.Fenced = false; s.Lock.FencedAt = now.Add(-fenceGrace) }), Wait, "", backupsv1alpha1.ReasonFenceMissing},
		{RowUnfenced, "until the deadline", with(with(captured(), late), func(s *Seen) { s.Gates.Fenced = false }), Intend, ActionConclude, backupsv1alpha1.ReasonFenceMissing},
		{RowFenceAgain, "somebody deleted the Lease", with(gone(), func(s *Seen) { s.Lock = LockFacts{} }), Do, ActionFence, backupsv1alpha1.ReasonFencing},
		{RowFenceAgain, "somebody took the label off", with(deleted(), func(s *Seen) { s.Lock.Fence, s.Lock.Fenced = false, false }), Do, ActionFence, ""},
		{RowFenceAgain, "the lock alone was lost", with(gone(), lost), Do, ActionFence, ""},
		{RowRecreate, "C33 another job has the lock, but the fence stands", with(gone(), ahead), Do, ActionRecreate, ""},
		{RowLiftFence, "a cluster is there", settled, Do, ActionLiftFence, backupsv1alpha1.ReasonResuming},
		{RowLiftFence, "the release goes", with(settled, func(s *Seen) { s.Cluster, s.Release.Deleting = nil, true }), Do, ActionLiftFence, ""},
		{RowLiftFence, "the namespace goes", with(settled, func(s *Seen) { s.Cluster, s.Namespace.Terminating = nil, true }), Do, ActionLiftFence, ""},
		{RowLiftFence, "a restore that deleted nothing lifts its own fence", with(settled, func(s *Seen) {
			s.Record.DeleteIntended, s.Lock.FenceMine, s.Record.Outcome = false, true, &OutcomeFacts{Resume: true, Reason: "x", Message: "y"}
		}), Do, ActionLiftFence, ""},
		{RowFailed, "and leaves that of another", with(settled, func(s *Seen) {
			s.Record.DeleteIntended, s.Record.Outcome = false, &OutcomeFacts{Resume: true, Reason: "x", Message: "y"}
		}), Fail, "", ""},
		{RowFailed, "somebody deletes the cluster: the fence stays", with(settled, func(s *Seen) {
			s.Cluster.Deleting, s.Record.Outcome = true, &OutcomeFacts{Resume: true, Reason: "x", Message: "y"}
		}), Fail, "", ""},
		{RowUnlock, "ended, before older records are looked at", with(finished3(okPhase, good), func(s *Seen) {
			s.Lock.Mine, s.Record.Superseded = true, "restore-x"
		}), Do, ActionUnlock, ""},
		{RowFailed, "no cluster is there: the fence stays", with(settled, func(s *Seen) { s.Cluster, s.Record.Outcome = nil, &broken }), Fail, "", ""},
		{RowFailed, "the cluster has no cluster ID: the fence stays", with(settled, func(s *Seen) { s.Cluster.ClusterID, s.Record.Outcome = "", &broken }), Fail, "", ""},
		{RowSucceeded, "another restore's fence is not ours to lift", with(settled, lost), Succeed, "", ""},
	}
}

func TestAFailureNamesTheFenceThatStays(t *testing.T) {
	stays := with(ended3(broken), func(s *Seen) { s.Cluster, s.Release = nil, &ReleaseFacts{Name: "etcd"} })
	require.Contains(t, Decide(stays).Message, "kubectl -n t delete lease etcd-lock")
	require.NotContains(t, Decide(with(stays, func(s *Seen) { s.Lock.Fence = false })).Message, "lease")
}
