package restorejob

import (
	"fmt"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// LockFacts is the lock of the application, and the fence on it.
type LockFacts struct {
	Namespace, Name string // of the Lease
	Limit           time.Duration
	Mine            bool   // this job holds it
	Ahead           string // who holds it, or goes first; empty if this job may take it
	Fence           bool   // something is fenced, by whichever restore
	FenceMine       bool   // by this one
	Fenced          bool   // all but the object that this restore starts from is fenced off
	FencedAt        time.Time
	// Trouble is why the fence could not be tried; empty where it was, or need not be.
	Trouble string
}

// Times of the fence: between two looks whether it works, at first and later, and when one that does not is called missing.
const (
	recheckFence       = 100 * time.Millisecond
	recheckFenceSlowly = 5 * time.Second
	fenceGrace         = 10 * time.Second
)

// behind tells that another job holds the lock or is served first.
func (s Seen) behind() bool { return !s.Lock.Mine && s.Lock.Ahead != "" }

func (s Seen) queueEnd() time.Time { return s.Job.CreatedAt.Add(s.Lock.Limit) }

// lifts tells that no fence is needed behind this restore: a latched cluster is there, whose release goes back to work, or whoever would bring up an empty
// one is on the way out. A restore that deleted nothing lifts its own fence only: what an earlier one fenced off is as it was.
func (s Seen) lifts() bool {
	if !s.Record.DeleteIntended && !s.Lock.FenceMine {
		return false
	}
	return s.Namespace.Terminating || s.releaseGoing() || (s.Record.Outcome.Resume && s.latched())
}

// fenceNote says how to get rid of a fence that stays.
func (s Seen) fenceNote() string {
	if !s.Lock.Fence || s.lifts() {
		return ""
	}
	return fmt.Sprintf(". Only a RestoreJob can create the EtcdCluster now; if an empty one is wanted: kubectl -n %s delete lease %s", s.Lock.Namespace, s.Lock.Name)
}

func queueLimit(s Seen) Decision {
	return fail(backupsv1alpha1.ReasonQueueLimitExceeded, "the restore could not start within %s: %s; nothing was touched", s.Lock.Limit, s.Lock.Ahead)
}

func queue(s Seen) Decision {
	return wait(recheck, backupsv1alpha1.ReasonWaitingForLock, "%s", s.Lock.Ahead)
}

func takeLock(Seen) Decision {
	return do(ActionLock, backupsv1alpha1.ReasonWaitingForLock, "taking the lock of the application")
}

func unlock(Seen) Decision {
	return do(ActionUnlock, backupsv1alpha1.ReasonSucceeded, "giving the lock of the application back")
}

func fence(Seen) Decision {
	return do(ActionFence, backupsv1alpha1.ReasonFencing, "fencing off every EtcdCluster but the restored one")
}

func liftFence(Seen) Decision {
	return do(ActionLiftFence, backupsv1alpha1.ReasonResuming, "lifting the fence")
}

// awaitFence waits until the API server refuses an empty cluster. It learns of the Lease in moments, unless policy or binding are not there.
func awaitFence(s Seen) Decision {
	if s.Now.Sub(s.Lock.FencedAt) < fenceGrace {
		return wait(recheckFence, backupsv1alpha1.ReasonFencing, "waiting until the API server refuses an empty EtcdCluster")
	}
	return wait(recheckFenceSlowly, backupsv1alpha1.ReasonFenceMissing, "%s: nothing is deleted before that", s.fenceMissing())
}

func (s Seen) fenceMissing() string {
	trouble := ""
	if s.Lock.Trouble != "" {
		trouble = fmt.Sprintf(" (%s)", s.Lock.Trouble)
	}
	return fmt.Sprintf("the API server does not refuse an empty EtcdCluster%s: install ValidatingAdmissionPolicy and ValidatingAdmissionPolicyBinding %s of charts/etcd-controller, "+
		"or start the controller with --allow-missing-fence", trouble, FencePolicy)
}

func unfenced(s Seen) Decision {
	return undone(backupsv1alpha1.ReasonFenceMissing, "%s. The cluster was left as it is", s.fenceMissing())
}
