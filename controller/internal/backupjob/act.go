package backupjob

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdsnapshots,verbs=create;delete
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups,verbs=create;update
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups/status,verbs=update
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupjobs/finalizers,verbs=update

// patience bounds the questions to etcd: they are worth an annotation, not a delay.
const patience = 3 * time.Second

// act makes the one change that was decided on.
func (r *Reconciler) act(ctx context.Context, job *backupsv1alpha1.BackupJob, o observation, d Decision) error {
	switch d.Action {
	case ActionCreateSnapshot:
		return r.createSnapshot(ctx, job, &o)
	case ActionDeleteSnapshot:
		return r.deleteSnapshot(ctx, o.snapshot)
	case ActionCreateBackup:
		return r.createBackup(ctx, job, o.snapshot)
	case ActionCompleteBackup:
		return r.completeBackup(ctx, job, o.snapshot)
	default:
		return nil
	}
}

func (r *Reconciler) createSnapshot(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	key := snapshotKey(job, o)
	load, ok, err := r.slots.reserve(key, job.Spec.ApplicationRef.Name, o.seen.Limits.MaxRunning, o.seen.Now,
		func() ([]etcdv1alpha2.EtcdSnapshot, error) { return r.snapshots(ctx) })
	switch {
	case err != nil:
		return err
	case load.rival != "":
		return fault.Waitingf(backupsv1alpha1.ReasonWaitingForOtherRun, "%s is under way for the same application: one at a time", load.rival)
	case !ok:
		return fault.Waitingf(backupsv1alpha1.ReasonWaitingForSlot, "%d snapshots are under way, at most %d may be", load.running, o.seen.Limits.MaxRunning)
	}
	facts, err := r.facts(ctx, o.cluster)
	if err == nil {
		err = r.submitSnapshot(ctx, job, o, facts)
	}
	if err != nil {
		r.slots.release(key)
	}
	return err
}

func (r *Reconciler) submitSnapshot(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation, facts backupstrategy.Facts) error {
	snapshot, err := backupstrategy.NewSnapshot(backupstrategy.SnapshotRequest{
		Job: job, Cluster: o.cluster.Name, Strategy: o.strategy.Name, Parameters: o.row.Parameters, Destination: o.destination, Facts: facts,
	})
	if err != nil {
		return err
	}
	err = r.Create(ctx, snapshot)
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.adoptSnapshot(ctx, job, snapshot.Name)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return fault.Terminalf(backupsv1alpha1.ReasonSnapshotFailed, "the API server refuses the EtcdSnapshot: %w", err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fault.Terminalf(backupsv1alpha1.ReasonDeleted, "the namespace is being deleted: %w", err)
	case err != nil:
		return fmt.Errorf("create EtcdSnapshot %q: %w", snapshot.Name, err)
	}
	return nil
}

// adoptSnapshot accepts a snapshot of this name only if this very job made it.
func (r *Reconciler) adoptSnapshot(ctx context.Context, job *backupsv1alpha1.BackupJob, name string) error {
	existing := &etcdv1alpha2.EtcdSnapshot{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: name}, existing); err != nil {
		return fmt.Errorf("read EtcdSnapshot %q: %w", name, err)
	}
	if !metav1.IsControlledBy(existing, job) {
		return fault.Terminalf(backupsv1alpha1.ReasonSnapshotForeign,
			"EtcdSnapshot %q exists and is not controlled by this BackupJob: remove it and create another BackupJob", name)
	}
	return nil
}

func (r *Reconciler) deleteSnapshot(ctx context.Context, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	err := r.Delete(ctx, snapshot, client.Preconditions{UID: &snapshot.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// facts gathers what the Backup will say of the cluster. Only the cluster itself must answer: without etcd's own words the keys are absent, which a
// restore takes as unknown.
func (r *Reconciler) facts(ctx context.Context, cluster *etcdv1alpha2.EtcdCluster) (backupstrategy.Facts, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(etcdv1alpha2.GroupVersion.WithKind("EtcdCluster"))
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(cluster), live); err != nil {
		return backupstrategy.Facts{}, fmt.Errorf("read EtcdCluster %q: %w", cluster.Name, err)
	}
	if live.GetUID() != cluster.UID {
		return backupstrategy.Facts{}, fault.Conflictf(backupsv1alpha1.ReasonRetrying, "EtcdCluster %q was replaced meanwhile", cluster.Name)
	}
	spec, _, err := unstructured.NestedMap(live.Object, "spec")
	if err != nil {
		return backupstrategy.Facts{}, fmt.Errorf("EtcdCluster %q: %w", cluster.Name, err)
	}
	raw, err := backupstrategy.ClusterSpec(spec)
	if err != nil {
		return backupstrategy.Facts{}, err
	}
	facts := backupstrategy.Facts{ClusterSpec: raw, ClusterUID: string(cluster.UID), ClusterID: cluster.Status.ClusterID}
	s, err := r.ask(ctx, cluster)
	if err != nil {
		log.FromContext(ctx).Info("the Backup will not tell etcd's version and revision", "cluster", cluster.Name, "cause", err.Error())
		return facts, nil
	}
	facts.Version, facts.Revision = s.Version, strconv.FormatInt(s.Revision, 10)
	// An operator may write the ID with leading zeros: its way of writing stays where both mean the same.
	if id, err := strconv.ParseUint(facts.ClusterID, 16, 64); err != nil || id != s.ClusterID {
		facts.ClusterID = strconv.FormatUint(s.ClusterID, 16)
	}
	return facts, nil
}

// ask reads etcd's own status through the headless Service, which leads to ready members.
func (r *Reconciler) ask(ctx context.Context, cluster *etcdv1alpha2.EtcdCluster) (etcd.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config, err := etcd.TLSFor(ctx, r.APIReader, cluster)
	if err != nil {
		return etcd.Status{}, err
	}
	reader, err := r.Etcd.Dial(etcd.Target{Host: cluster.Name + "." + cluster.Namespace + ".svc", Port: 2379, TLS: config})
	if err != nil {
		return etcd.Status{}, err
	}
	defer func() { _ = reader.Close() }()
	return reader.Status(ctx)
}

func (r *Reconciler) createBackup(ctx context.Context, job *backupsv1alpha1.BackupJob, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	backup, err := backupFor(job, snapshot)
	if err != nil {
		return err
	}
	err = r.Create(ctx, backup)
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.completeBackup(ctx, job, snapshot)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return fault.Terminalf(backupsv1alpha1.ReasonInternalError, "the API server refuses the Backup: %w", err)
	case err != nil:
		return fmt.Errorf("create Backup %q: %w", job.Name, err)
	}
	return nil
}

// completeBackup gives a Backup of ours its status where the create did not: the kind may have a status subresource, which a create does not reach.
func (r *Reconciler) completeBackup(ctx context.Context, job *backupsv1alpha1.BackupJob, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	live := &backupsv1alpha1.Backup{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(job), live); err != nil {
		return fmt.Errorf("read Backup %q: %w", job.Name, err)
	}
	if !holds(live, snapshot.Name) {
		return fault.Terminalf(backupsv1alpha1.ReasonBackupExists, "Backup %q exists already and holds another snapshot: a Backup is never overwritten", job.Name)
	}
	if live.Status.Phase == backupsv1alpha1.BackupReady {
		return nil
	}
	wanted, err := backupFor(job, snapshot)
	if err != nil {
		return err
	}
	live.Status = wanted.Status
	return r.writeBackupStatus(ctx, live)
}

// writeBackupStatus writes through the status subresource where there is one, else with the object.
func (r *Reconciler) writeBackupStatus(ctx context.Context, backup *backupsv1alpha1.Backup) error {
	err := r.Status().Update(ctx, backup)
	if apierrors.IsNotFound(err) {
		err = r.Update(ctx, backup)
	}
	if err != nil {
		return fmt.Errorf("write the status of Backup %q: %w", backup.Name, err)
	}
	return nil
}

func backupFor(job *backupsv1alpha1.BackupJob, snapshot *etcdv1alpha2.EtcdSnapshot) (*backupsv1alpha1.Backup, error) {
	request, err := backupstrategy.BackupOf(job, snapshot)
	if err != nil {
		return nil, err
	}
	return backupstrategy.NewBackup(request)
}
