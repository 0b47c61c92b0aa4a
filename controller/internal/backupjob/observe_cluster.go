package backupjob

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/quorum"
)

// applicationKind is what Cozystack's aggregated API serves.
var applicationGVK = schema.GroupVersionKind{
	Group: backupsv1alpha1.DefaultApplicationGroup, Version: backupsv1alpha1.DefaultApplicationVersion, Kind: backupsv1alpha1.EtcdApplicationKind,
}

// observeApplication finds the application and its cluster, and renders the destination for it. The cluster bears the application's name.
func (r *Reconciler) observeApplication(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	o.seen.Application.Supported = backupstrategy.IsEtcdApplication(job.Spec.ApplicationRef)
	if !o.seen.Application.Supported {
		return nil
	}
	whole := etcdv1alpha2.WholeCluster()
	key := client.ObjectKey{Namespace: job.Namespace, Name: job.Spec.ApplicationRef.Name}
	if !backupsv1alpha1.PossibleName(key.Name) {
		o.seen.Application.Gone = true
		return nil
	}
	switch err := r.Get(ctx, key, whole); {
	case err == nil:
		o.whole = whole
		if o.cluster, err = etcdv1alpha2.ClusterOf(whole); err != nil {
			return err
		}
		o.seen.Cluster = clusterFacts(o.cluster)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read EtcdCluster %s: %w", key, err)
	}
	application, err := r.application(ctx, job, key)
	if err != nil {
		return err
	}
	if application == nil {
		if o.cluster == nil || r.apps {
			o.seen.Application.Gone = true
			return nil
		}
		application = backupstrategy.Application(job.Spec.ApplicationRef, job.Namespace, nil)
	}
	o.destination, err = backupstrategy.Render(o.strategy.Spec.Template, application, o.row.Parameters)
	if err != nil {
		o.seen.Destination = problemOf(err)
	}
	return nil
}

// application is what templates see: the object itself where Cozystack serves it, else one made from the HelmRelease. Nil means that neither is there.
func (r *Reconciler) application(ctx context.Context, job *backupsv1alpha1.BackupJob, key client.ObjectKey) (map[string]any, error) {
	if r.apps {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(applicationGVK)
		if err := r.APIReader.Get(ctx, key, u); err != nil {
			return nil, ignoreNotFound(err, "read application %s", key)
		}
		return u.Object, nil
	}
	if !r.flux {
		return nil, nil
	}
	release := &fluxv2.HelmRelease{}
	if err := r.Get(ctx, key, release); err != nil {
		return nil, ignoreNotFound(err, "read HelmRelease %s", key)
	}
	values, err := backupstrategy.Values(release.Spec.Values)
	if err != nil {
		return nil, fmt.Errorf("HelmRelease %s: %w", key, err)
	}
	return backupstrategy.Application(job.Spec.ApplicationRef, job.Namespace, values), nil
}

// lostReasons are the operator's words for a cluster that cannot serve. Others, such as Paused or a seed that is still awaited, pass by themselves.
var lostReasons = map[string]bool{
	etcdv1alpha2.ReasonQuorumLost: true, etcdv1alpha2.ReasonClusterUnreachable: true, etcdv1alpha2.ReasonBootstrapFailed: true,
}

func clusterFacts(c *etcdv1alpha2.EtcdCluster) ClusterFacts {
	f := ClusterFacts{Found: true, Deleting: !c.DeletionTimestamp.IsZero(), Replicas: 3}
	if c.Spec.Replicas != nil {
		f.Replicas = *c.Spec.Replicas
	}
	available := meta.FindStatusCondition(c.Status.Conditions, etcdv1alpha2.ConditionAvailable)
	if available != nil && available.Status == metav1.ConditionFalse && lostReasons[available.Reason] {
		f.Lost, f.LostSince = available.Reason, transitionOf(available)
	}
	return f
}

// observeMembers counts the votes of the members that the present cluster owns.
func (r *Reconciler) observeMembers(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	var list etcdv1alpha2.EtcdMemberList
	if err := r.List(ctx, &list, client.InNamespace(job.Namespace)); err != nil {
		return fmt.Errorf("list EtcdMembers of %s: %w", job.Namespace, err)
	}
	members := make([]quorum.Member, 0, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		members = append(members, quorum.Member{
			Name:    m.Name,
			Ready:   meta.IsStatusConditionTrue(m.Status.Conditions, etcdv1alpha2.ConditionReady),
			Voter:   m.Status.IsVoter,
			Current: metav1.IsControlledBy(m, o.cluster) && m.DeletionTimestamp.IsZero(),
		})
	}
	o.seen.Cluster.Quorum = quorum.Count(members)
	return nil
}

// observeQueue counts snapshots under way and looks for the run's place among those that want the lock.
func (r *Reconciler) observeQueue(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	snapshots, err := r.snapshots(ctx)
	if err != nil {
		return err
	}
	o.seen.Queue.Running = r.slots.look(snapshotKey(job, o), snapshots, o.seen.Now)
	return r.observeLock(ctx, job, o)
}

// snapshots are those of BackupJobs, from the cache.
func (r *Reconciler) snapshots(ctx context.Context) ([]etcdv1alpha2.EtcdSnapshot, error) {
	var list etcdv1alpha2.EtcdSnapshotList
	if err := r.List(ctx, &list, client.HasLabels{backupsv1alpha1.LabelBackupJobNamespace}); err != nil {
		return nil, fmt.Errorf("list EtcdSnapshots: %w", err)
	}
	return list.Items, nil
}

func snapshotKey(job *backupsv1alpha1.BackupJob, o *observation) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: o.seen.Snapshot.Name}
}

func underWay(s *etcdv1alpha2.EtcdSnapshot) bool {
	return s.DeletionTimestamp.IsZero() && s.Status.Phase != etcdv1alpha2.SnapshotComplete && s.Status.Phase != etcdv1alpha2.SnapshotFailed
}
