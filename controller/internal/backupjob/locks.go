package backupjob

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

// observeLock looks who has the lock of the application and who is served first. Lease and jobs come from caches: taking the lock fails where they are behind.
// A run that is over only asks whether it still has the lock.
func (r *Reconciler) observeLock(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	if !backupstrategy.IsEtcdApplication(job.Spec.ApplicationRef) {
		return nil
	}
	application, me := job.Spec.ApplicationRef.Name, lock.BackupClaim(job)
	var err error
	if o.lock, err = r.Locks.Get(ctx, job.Namespace, application); err != nil {
		return err
	}
	if job.Status.Phase.Terminal() {
		o.seen.Queue.Mine = o.lock.Holder != nil && o.lock.Holder.UID == job.UID
		return nil
	}
	verdict, err := r.Locks.Judge(ctx, o.lock, me, func() ([]lock.Claim, error) {
		restores, err := lock.RestoreClaims(ctx, r.Client, job.Namespace, application)
		if err != nil {
			return nil, err
		}
		backups, err := lock.BackupClaims(ctx, r.Client, job.Namespace, application)
		return append(restores, backups...), err
	})
	o.seen.Queue.Mine, o.seen.Queue.Ahead = verdict.Mine, verdict.Ahead
	return err
}

// takeLock makes the run the holder. To take it again changes nothing, so that this and the snapshot that follows are one step.
func (r *Reconciler) takeLock(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	if o.seen.Queue.Mine {
		return nil
	}
	o.lock.Take(lock.BackupClaim(job))
	return r.Locks.Save(ctx, o.lock)
}

func (r *Reconciler) unlock(ctx context.Context, o *observation) error {
	o.lock.Release()
	return r.Locks.Save(ctx, o.lock)
}

// leases wakes the runs that wait, and a run that was over before the cache showed that it has the lock.
func (r *Reconciler) leases() source.Source {
	return source.Kind(r.Leases, &coordinationv1.Lease{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(ctx context.Context, lease *coordinationv1.Lease) []reconcile.Request {
			requests := r.waitingIn(ctx, client.InNamespace(lease.Namespace))
			holder := lock.HolderOf(lease)
			job := &backupsv1alpha1.BackupJob{}
			if holder == nil || r.Get(ctx, client.ObjectKey{Namespace: lease.Namespace, Name: holder.Name}, job) != nil {
				return requests
			}
			if job.UID == holder.UID && job.Status.Phase.Terminal() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			}
			return requests
		}))
}
