package backupjob

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/safekeep"
)

// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdsnapshots,verbs=create;delete
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups,verbs=create;patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups/status,verbs=patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupjobs/finalizers,verbs=update

// act makes the one change that was decided on.
func (r *Reconciler) act(ctx context.Context, job *backupsv1alpha1.BackupJob, o observation, d Decision) error {
	switch d.Action {
	case ActionCreateSnapshot:
		return r.createSnapshot(ctx, job, &o)
	case ActionDeleteSnapshot:
		return r.deleteSnapshot(ctx, o.snapshot)
	case ActionCreateBackup, ActionCompleteBackup:
		return r.keepSnapshot(ctx, job, o.snapshot)
	default:
		return nil
	}
}

func (r *Reconciler) createSnapshot(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	key := snapshotKey(job, o)
	running, ok, err := r.slots.reserve(key, o.seen.Limits.MaxRunning, o.seen.Now,
		func() ([]etcdv1alpha2.EtcdSnapshot, error) { return r.snapshots(ctx) })
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.Waitingf(backupsv1alpha1.ReasonWaitingForSlot, "%d snapshots are under way, at most %d may be", running, o.seen.Limits.MaxRunning)
	}
	if err := r.takeLock(ctx, job, o); err != nil {
		r.slots.release(key)
		return err
	}
	facts, err := r.maker().Facts(ctx, o.whole)
	if err == nil {
		err = r.submitSnapshot(ctx, job, o, facts)
	}
	if err == nil {
		return nil
	}
	r.slots.release(key)
	// Whatever the run waits for now, nobody has to wait for it. Where this fails, the run goes on under the lock.
	return errors.Join(err, r.unlock(ctx, o))
}

func (r *Reconciler) submitSnapshot(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation, facts backupstrategy.Facts) error {
	snapshot, err := backupstrategy.NewSnapshot(backupstrategy.SnapshotRequest{
		Job: job, Cluster: o.cluster.Name, Strategy: o.strategy.Name, Parameters: o.row.Parameters, Destination: o.destination, Facts: facts,
	})
	if err != nil {
		return err
	}
	return r.maker().Submit(ctx, job, snapshot)
}

func (r *Reconciler) deleteSnapshot(ctx context.Context, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	err := r.Delete(ctx, snapshot, client.Preconditions{UID: &snapshot.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// keepSnapshot makes the Backup of a complete snapshot, or gives it its status.
func (r *Reconciler) keepSnapshot(ctx context.Context, job *backupsv1alpha1.BackupJob, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	request, err := backupstrategy.BackupOf(job, snapshot)
	if err != nil {
		return err
	}
	return r.maker().Keep(ctx, request)
}

func (r *Reconciler) maker() safekeep.Maker {
	return safekeep.Maker{Client: r.Client, Reader: r.APIReader, Etcd: r.Etcd}
}
