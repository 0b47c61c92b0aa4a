// Package backup lets go of Backups and RestoreJobs that Cozystack's own driver would hold for ever: it puts finalizers on all of them, and where it is
// gone nobody takes them off. The driver never deletes anything from S3, so nothing is lost with them.
package backup

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups;restorejobs,verbs=get;list;watch;patch

// Reconciler takes Cozystack's finalizers off objects of the Etcd strategy that are being deleted. Wrap must hold it back while that driver is alive.
type Reconciler struct {
	client.Client
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
}

// stock are the finalizers of Cozystack's driver.
var stock = []string{backupsv1alpha1.CozystackCleanupFinalizer, backupsv1alpha1.CozystackVeleroCleanupFinalizer}

func held(o client.Object) bool {
	return !o.GetDeletionTimestamp().IsZero() && slices.ContainsFunc(o.GetFinalizers(), isStock)
}

func isStock(f string) bool { return slices.Contains(stock, f) }

// SetupWithManager starts one controller for each of the two kinds.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	deleted := builder.WithPredicates(predicate.NewPredicateFuncs(held))
	if err := ctrl.NewControllerManagedBy(mgr).Named("backup").
		For(&backupsv1alpha1.Backup{}, deleted).Complete(r.wrap(r.reconcileBackup)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("restorejob-finalizers").
		For(&backupsv1alpha1.RestoreJob{}, deleted).Complete(r.wrap(r.reconcileRestoreJob))
}

func (r *Reconciler) wrap(f reconcile.Func) reconcile.Reconciler {
	if r.Wrap != nil {
		return r.Wrap(f)
	}
	return f
}

func (r *Reconciler) reconcileBackup(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &backupsv1alpha1.Backup{}
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !backupstrategy.IsEtcdStrategy(b.Spec.StrategyRef) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.release(ctx, b)
}

// reconcileRestoreJob knows the strategy from the Backup, or, where that is gone, the application from the job.
func (r *Reconciler) reconcileRestoreJob(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	j := &backupsv1alpha1.RestoreJob{}
	if err := r.Get(ctx, req.NamespacedName, j); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	b := &backupsv1alpha1.Backup{}
	err := r.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: j.Spec.BackupRef.Name}, b)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read Backup %q: %w", j.Spec.BackupRef.Name, err)
	}
	target := j.Spec.TargetApplicationRef
	if (err == nil && backupstrategy.IsEtcdStrategy(b.Spec.StrategyRef)) || (err != nil && target != nil && backupstrategy.IsEtcdApplication(*target)) {
		return ctrl.Result{}, r.release(ctx, j)
	}
	return ctrl.Result{}, nil
}

// release takes off Cozystack's finalizers and no others.
func (r *Reconciler) release(ctx context.Context, o client.Object) error {
	if !held(o) {
		return nil
	}
	before := o.DeepCopyObject().(client.Object) //nolint:errcheck,forcetypeassert // a copy of a client.Object is one
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), isStock))
	err := r.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or a newer version is on its way
	}
	if err == nil {
		log.FromContext(ctx).Info("took off the finalizers of Cozystack's driver, which is gone", "name", o.GetName())
	}
	return err
}
