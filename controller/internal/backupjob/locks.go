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
// A run that is over has no lock, whatever the Lease says, so none is given back at the end.
func (r *Reconciler) observeLock(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	if !backupstrategy.IsEtcdApplication(job.Spec.ApplicationRef) || !backupsv1alpha1.PossibleName(job.Spec.ApplicationRef.Name) {
		return nil
	}
	application, me := job.Spec.ApplicationRef.Name, lock.BackupClaim(job)
	var err error
	if o.lock, err = r.Locks.Get(ctx, job.Namespace, application); err != nil {
		return err
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

// leases wakes the runs that wait.
func (r *Reconciler) leases() source.Source {
	return source.Kind(r.Leases, &coordinationv1.Lease{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(ctx context.Context, lease *coordinationv1.Lease) []reconcile.Request {
			return r.waitingIn(ctx, client.InNamespace(lease.Namespace))
		}))
}
