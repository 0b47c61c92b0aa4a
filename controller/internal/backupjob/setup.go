package backupjob

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

// SetupWithManager watches BackupJobs, what they make, and everything that they may wait for, except Secrets. Whether HelmReleases and Cozystack's
// application API are served is looked up here, once: where either comes
// later, the process ends and starts anew.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.flux = served(mgr.GetRESTMapper(), fluxv2.GroupVersion.WithKind("HelmRelease"))
	r.apps = served(mgr.GetRESTMapper(), applicationGVK)
	inNamespace := func(_ context.Context, o client.Object) []client.ListOption {
		return []client.ListOption{client.InNamespace(o.GetNamespace())}
	}
	everywhere := func(context.Context, client.Object) []client.ListOption { return nil }
	b := ctrl.NewControllerManagedBy(mgr).Named("backupjob").
		For(&backupsv1alpha1.BackupJob{}).
		Owns(&etcdv1alpha2.EtcdSnapshot{}).
		Watches(&backupsv1alpha1.BackupJob{}, r.waiting(inNamespace), builder.WithPredicates(over())). // it may have held the lock
		Watches(&backupsv1alpha1.Backup{}, &handler.EnqueueRequestForObject{}).                        // a Backup has its job's name
		Watches(&etcdv1alpha2.EtcdSnapshot{}, r.waiting(everywhere)).                                  // one that ends frees a slot
		Watches(etcdv1alpha2.WholeCluster(), r.waiting(inNamespace)).
		Watches(&etcdv1alpha2.EtcdMember{}, r.waiting(inNamespace)).
		Watches(&backupsv1alpha1.RestoreJob{}, r.waiting(inNamespace)).
		Watches(&backupsv1alpha1.BackupClass{}, r.waiting(everywhere)).
		Watches(&strategyv1alpha1.Etcd{}, r.waiting(everywhere)).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(r.Concurrency, 1)})
	if r.flux {
		b = b.Watches(&fluxv2.HelmRelease{}, r.waiting(inNamespace))
	}
	if r.Leases != nil {
		b = b.WatchesRawSource(r.leases())
	}
	var outer reconcile.Reconciler = r
	if r.Wrap != nil {
		outer = r.Wrap(r)
	}
	return b.Complete(outer)
}

// over lets the ends of BackupJobs through.
func over() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  lock.Ends,
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// waiting enqueues the jobs that have no snapshot yet, among those that the options select. It reads the cache.
func (r *Reconciler) waiting(options func(context.Context, client.Object) []client.ListOption) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		if s, ok := o.(*etcdv1alpha2.EtcdSnapshot); ok && underWay(s) {
			return nil
		}
		return r.waitingIn(ctx, options(ctx, o)...)
	})
}

func (r *Reconciler) waitingIn(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var jobs backupsv1alpha1.BackupJobList
	if err := r.List(ctx, &jobs, options...); err != nil {
		log.FromContext(ctx).Error(err, "list BackupJobs")
		return nil
	}
	var requests []reconcile.Request
	for i := range jobs.Items {
		st := jobs.Items[i].Status
		if st.Phase.Terminal() || meta.FindStatusCondition(st.Conditions, backupsv1alpha1.ConditionSnapshotStored) != nil {
			continue
		}
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&jobs.Items[i])})
	}
	return requests
}

// served tells whether the API server has the kind. A server that cannot be asked counts as one that has it, so that nothing is left out by mistake.
func served(mapper meta.RESTMapper, gvk schema.GroupVersionKind) bool {
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return !meta.IsNoMatchError(err)
}
