package plan

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// SetupWithManager watches Plans and the coming and going of applications. Ticks are timers. Jobs are read from the cache and need no watch of their own:
// what they do between two ticks changes nothing.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	_, err := mgr.GetRESTMapper().RESTMapping(fluxv2.GroupVersion.WithKind("HelmRelease").GroupKind(), fluxv2.GroupVersion.Version)
	r.flux = !meta.IsNoMatchError(err)
	comings := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	b := ctrl.NewControllerManagedBy(mgr).Named("plan").
		For(&backupsv1alpha1.Plan{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(etcdv1alpha2.WholeCluster(), handler.EnqueueRequestsFromMapFunc(r.plansOf), comings)
	if r.flux {
		b = b.Watches(&fluxv2.HelmRelease{}, handler.EnqueueRequestsFromMapFunc(r.plansOf), comings)
	}
	var outer reconcile.Reconciler = r
	if r.Wrap != nil {
		outer = r.Wrap(r)
	}
	return b.Complete(outer)
}

// plansOf enqueues the plans of the application that bears the object's name.
func (r *Reconciler) plansOf(ctx context.Context, o client.Object) []reconcile.Request {
	var plans backupsv1alpha1.PlanList
	if err := r.List(ctx, &plans, client.InNamespace(o.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "list Plans")
		return nil
	}
	var requests []reconcile.Request
	for i := range plans.Items {
		if plans.Items[i].Spec.ApplicationRef.Name == o.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&plans.Items[i])})
		}
	}
	return requests
}
