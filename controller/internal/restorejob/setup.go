package restorejob

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=restorejobs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=restorejobs/status,verbs=patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups,verbs=get
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=strategy.backups.cozystack.io,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.cozystack.io,resources=etcds,verbs=get
// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdmembers,verbs=get;list;watch
// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims;services,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// Objects move a restore on, beside the RestoreJob itself, when they change. Of those whose content a pass reads uncached anyway, only the metadata is
// cached.
var (
	watched         = []client.Object{etcdv1alpha2.WholeCluster(), &etcdv1alpha2.EtcdMember{}, &etcdv1alpha2.EtcdSnapshot{}, &fluxv2.HelmRelease{}}
	watchedMetadata = []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}}
)

// CacheSelectors keep the manager's cache from holding the metadata of every Pod, claim and Service there is: only what the etcd operator makes counts.
func CacheSelectors() map[client.Object]cache.ByObject {
	selector := labels.SelectorFromSet(labels.Set{etcdv1alpha2.LabelManagedBy: etcdv1alpha2.ManagedByOperator})
	selectors := map[client.Object]cache.ByObject{}
	for _, o := range watchedMetadata {
		selectors[o] = cache.ByObject{Label: selector}
	}
	return selectors
}

// SetupWithManager starts the watches. Kinds that the API server does not serve, such as Flux's where Helm is used by hand, are left out.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("restorejob").
		WithOptions(controller.Options{MaxConcurrentReconciles: max(1, r.Concurrency)}).
		For(&backupsv1alpha1.RestoreJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&backupsv1alpha1.RestoreJob{}, handler.EnqueueRequestsFromMapFunc(r.runningIn), builder.WithPredicates(ended()))
	enqueue := handler.EnqueueRequestsFromMapFunc(r.runningIn)
	for _, o := range watched {
		there, err := served(mgr, o)
		if err != nil {
			return err
		}
		if there {
			b = b.Watches(o, enqueue)
		}
	}
	for _, o := range watchedMetadata {
		b = b.WatchesMetadata(o, enqueue)
	}
	b = b.Watches(&backupsv1alpha1.BackupJob{}, enqueue, builder.WithPredicates(over()))
	if r.Leases != nil {
		b = b.WatchesRawSource(source.Kind(r.Leases, &coordinationv1.Lease{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, lease *coordinationv1.Lease) []reconcile.Request {
				return r.runningIn(ctx, lease)
			})))
	}
	b = b.WatchesRawSource(source.Channel(r.Background.wake, &handler.EnqueueRequestForObject{}))
	if err := mgr.Add(r.Background); err != nil {
		return err
	}
	var inner reconcile.Reconciler = r
	if r.Wrap != nil {
		inner = r.Wrap(r)
	}
	return b.Complete(inner)
}

// served tells whether the API server has an object's kind.
func served(mgr ctrl.Manager, o client.Object) (bool, error) {
	kind, err := mgr.GetClient().GroupVersionKindFor(o)
	if err != nil {
		return false, err
	}
	_, err = mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up kind %s: %w", kind.Kind, err)
	}
	return true, nil
}

// ended lets through what frees the way for the next RestoreJob.
func ended() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, ok := e.ObjectOld.(*backupsv1alpha1.RestoreJob)
			is, ok2 := e.ObjectNew.(*backupsv1alpha1.RestoreJob)
			return ok && ok2 && !was.Status.Phase.Terminal() && is.Status.Phase.Terminal()
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// over lets the ends of BackupJobs through: a holder of the lock that is over keeps nobody.
func over() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  lock.Ends,
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// runningIn finds the jobs that an object's change may move on: those of its namespace that have not ended.
func (r *Reconciler) runningIn(ctx context.Context, o client.Object) []reconcile.Request {
	jobs := &backupsv1alpha1.RestoreJobList{}
	if err := r.Client.List(ctx, jobs, client.InNamespace(o.GetNamespace())); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range jobs.Items {
		if job := &jobs.Items[i]; !done(job) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: job.Namespace, Name: job.Name}})
		}
	}
	return requests
}
