// Package strategy tells administrators what is wrong with an Etcd strategy before a job meets it.
package strategy

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// Reconciler keeps the Ready condition of Etcd strategies. Jobs do not read it: they render the templates themselves.
type Reconciler struct {
	client.Client
	// Wrap may put something between the queue and the reconciler; nil means nothing.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
}

// +kubebuilder:rbac:groups=strategy.backups.cozystack.io,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=strategy.backups.cozystack.io,resources=etcds/status,verbs=patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupclasses,verbs=get;list;watch

// Reconcile checks one strategy against the classes that point at it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	strategy := &strategyv1alpha1.Etcd{}
	if err := r.Get(ctx, req.NamespacedName, strategy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var classes backupsv1alpha1.BackupClassList
	if err := r.List(ctx, &classes); err != nil {
		return ctrl.Result{}, fmt.Errorf("list BackupClasses: %w", err)
	}
	after := strategy.DeepCopy()
	conditions := status.Conditions{List: &after.Status.Conditions, Generation: after.Generation}
	if problems := backupstrategy.Check(strategy, classes.Items); len(problems) > 0 {
		conditions.Failed(backupsv1alpha1.ReasonTemplateInvalid, "%s", strings.Join(problems, "; "))
	} else {
		conditions.Done(backupsv1alpha1.ReasonValid, "the templates render for every BackupClass row that points here")
	}
	_, err := status.Patch(ctx, r.Client, strategy, after)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return ctrl.Result{}, nil // gone, or a newer version is on its way
	}
	return ctrl.Result{}, err
}

// SetupWithManager watches strategies and classes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	everyStrategy := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list strategyv1alpha1.EtcdList
		if err := r.List(ctx, &list); err != nil {
			log.FromContext(ctx).Error(err, "list Etcd strategies")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return requests
	})
	edited := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	var outer reconcile.Reconciler = r
	if r.Wrap != nil {
		outer = r.Wrap(r)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("strategy").
		For(&strategyv1alpha1.Etcd{}, edited).
		Watches(&backupsv1alpha1.BackupClass{}, everyStrategy, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(outer)
}
