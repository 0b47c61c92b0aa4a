// Package safekeep asks the operator for a snapshot of a cluster, and makes a Backup of one that is complete. BackupJobs and the safety snapshots of
// RestoreJobs have it in common.
package safekeep

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

// patience bounds the questions to etcd: they are worth an annotation, not a delay.
const patience = 3 * time.Second

// Maker makes snapshots and Backups.
type Maker struct {
	Client client.Client
	Reader client.Reader // uncached
	Etcd   etcd.Dialer
}

// Submit creates the EtcdSnapshot. One of that name is accepted only if this very job controls it.
func (m Maker) Submit(ctx context.Context, job metav1.Object, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	err := m.Client.Create(ctx, snapshot)
	switch {
	case apierrors.IsAlreadyExists(err):
		return m.adopt(ctx, job, snapshot)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return fault.Terminalf(backupsv1alpha1.ReasonSnapshotFailed, "the API server refuses the EtcdSnapshot: %w", err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fault.Terminalf(backupsv1alpha1.ReasonDeleted, "the namespace is being deleted: %w", err)
	case err != nil:
		return fmt.Errorf("create EtcdSnapshot %q: %w", snapshot.Name, err)
	}
	return nil
}

func (m Maker) adopt(ctx context.Context, job metav1.Object, snapshot *etcdv1alpha2.EtcdSnapshot) error {
	existing := &etcdv1alpha2.EtcdSnapshot{}
	if err := m.Reader.Get(ctx, client.ObjectKeyFromObject(snapshot), existing); err != nil {
		return fmt.Errorf("read EtcdSnapshot %q: %w", snapshot.Name, err)
	}
	if !metav1.IsControlledBy(existing, job) {
		return fault.Terminalf(backupsv1alpha1.ReasonSnapshotForeign,
			"EtcdSnapshot %q exists and is not controlled by this %s: remove it and create another one", snapshot.Name, snapshot.OwnerReferences[0].Kind)
	}
	return nil
}

// Facts gathers what the Backup will say of the cluster, which is given whole. Without etcd's own words the keys are absent, which a restore takes as
// unknown.
func (m Maker) Facts(ctx context.Context, whole *unstructured.Unstructured) (backupstrategy.Facts, error) {
	cluster, err := etcdv1alpha2.ClusterOf(whole)
	if err != nil {
		return backupstrategy.Facts{}, err
	}
	spec, _, err := unstructured.NestedMap(whole.Object, "spec")
	if err != nil {
		return backupstrategy.Facts{}, fmt.Errorf("EtcdCluster %q: %w", cluster.Name, err)
	}
	raw, err := backupstrategy.ClusterSpec(spec)
	if err != nil {
		return backupstrategy.Facts{}, err
	}
	facts := backupstrategy.Facts{ClusterSpec: raw, ClusterUID: string(cluster.UID), ClusterID: cluster.Status.ClusterID}
	s, err := m.ask(ctx, cluster)
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
func (m Maker) ask(ctx context.Context, cluster *etcdv1alpha2.EtcdCluster) (etcd.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config, err := etcd.TLSFor(ctx, m.Reader, cluster)
	if err != nil {
		return etcd.Status{}, err
	}
	reader, err := m.Etcd.Dial(etcd.Target{Host: cluster.Name + "." + cluster.Namespace + ".svc", Port: 2379, TLS: config})
	if err != nil {
		return etcd.Status{}, err
	}
	defer func() { _ = reader.Close() }()
	return reader.Status(ctx)
}

// Holds tells whether a Backup is of the snapshot: its name carries the UID of the job that made it.
func Holds(b *backupsv1alpha1.Backup, snapshot string) bool {
	return backupstrategy.IsEtcdStrategy(b.Spec.StrategyRef) && b.Spec.DriverMetadata[backupsv1alpha1.MetadataBackupName] == snapshot
}

// Keep creates the Backup with its status, or gives one of the same snapshot its status: the kind may have a status subresource, which a create does not
// reach.
func (m Maker) Keep(ctx context.Context, request backupstrategy.BackupRequest) error {
	backup, err := backupstrategy.NewBackup(request)
	if err != nil {
		return err
	}
	wanted := backup.DeepCopy()
	err = m.Client.Create(ctx, backup)
	switch {
	case apierrors.IsAlreadyExists(err):
		return m.complete(ctx, wanted, request.Snapshot)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return fault.Terminalf(backupsv1alpha1.ReasonInternalError, "the API server refuses the Backup: %w", err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fault.Terminalf(backupsv1alpha1.ReasonDeleted, "the namespace is being deleted: %w", err)
	case err != nil:
		return fmt.Errorf("create Backup %q: %w", request.Name, err)
	}
	return nil
}

func (m Maker) complete(ctx context.Context, wanted *backupsv1alpha1.Backup, snapshot string) error {
	live := &backupsv1alpha1.Backup{}
	if err := m.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
		return fmt.Errorf("read Backup %q: %w", wanted.Name, err)
	}
	if !Holds(live, snapshot) {
		return fault.Terminalf(backupsv1alpha1.ReasonBackupExists, "Backup %q exists already and holds another snapshot: a Backup is never overwritten", live.Name)
	}
	if live.Status.Phase == backupsv1alpha1.BackupReady {
		return nil
	}
	// A patch, as the platform's Backup may have fields that the type here does not.
	before := live.DeepCopy()
	live.Status = wanted.Status
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := m.Client.Status().Patch(ctx, live.DeepCopy(), patch)
	if apierrors.IsNotFound(err) {
		err = m.Client.Patch(ctx, live, patch) // no status subresource
	}
	if err != nil {
		return fmt.Errorf("write the status of Backup %q: %w", live.Name, err)
	}
	return nil
}
