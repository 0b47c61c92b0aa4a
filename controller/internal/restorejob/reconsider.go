package restorejob

import (
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// freshIntent is how long an intent to delete stands. What it rests on, such as the revisions that the copies are ahead of, was looked at just before it.
const freshIntent = time.Minute

// outdated tells that the captured cluster lives on behind an intent to delete it that no longer stands: the controller was away, somebody edited the cluster,
// or the deadline has passed. Nothing is lost yet, so everything is looked at again.
func (s Seen) outdated() bool {
	if s.rollingBack() || !s.former() || s.Cluster.Deleting || s.Cluster.UID != s.Record.OldUID {
		return false
	}
	late := s.Expired() || !s.Now.Before(s.Record.DeleteAt.Add(freshIntent))
	return late || s.stale() || s.Namespace.Terminating || s.releaseGoing()
}

func reconsider(Seen) Decision {
	return intend(ActionReconsider, backupsv1alpha1.ReasonDeleting, "the EtcdCluster was not deleted yet, and what that was decided on may have changed: looking at everything again")
}
