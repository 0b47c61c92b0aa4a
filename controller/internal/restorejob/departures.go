package restorejob

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// Departures sees off HelmReleases that a failed restore left suspended and that are deleted later, when its RestoreJob may be gone. Flux lets go of a
// suspended release without an uninstall, and makes up for that when it is resumed while a finalizer keeps the object.
type Departures struct {
	Client client.Client
	Reader client.Reader // uncached
	Events events.EventRecorder
	Now    func() time.Time
	// Wrap, where set, goes around every reconcile.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
}

// SetupWithManager starts the watch, where the API server serves HelmReleases.
func (d *Departures) SetupWithManager(mgr ctrl.Manager) error {
	there, err := served(mgr, &fluxv2.HelmRelease{})
	if err != nil || !there {
		return err
	}
	var inner reconcile.Reconciler = d
	if d.Wrap != nil {
		inner = d.Wrap(d)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("departure").
		For(&fluxv2.HelmRelease{}, builder.WithPredicates(predicate.NewPredicateFuncs(departs))).Complete(inner)
}

// departs tells that a release is ours to see off. One that a restore has at work is that restore's.
func departs(o client.Object) bool {
	return o.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(o, backupsv1alpha1.UninstallFinalizer) &&
		!controllerutil.ContainsFinalizer(o, backupsv1alpha1.RestoreFinalizer)
}

// Reconcile makes at most one change.
func (d *Departures) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(fluxv2.GroupVersion.WithKind("HelmRelease"))
	if err := d.Reader.Get(ctx, req.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !departs(u) {
		return ctrl.Result{}, nil
	}
	hr, err := typedRelease(u)
	if err != nil {
		return ctrl.Result{}, err
	}
	again := recheckUninstall
	err = d.seeOff(ctx, u, releaseFacts(&release{object: u, typed: hr}, nil, hr.UID, d.Now()))
	if fault.ClassOf(err) == fault.Conflict {
		again, err = soon, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

func (d *Departures) seeOff(ctx context.Context, u *unstructured.Unstructured, f *ReleaseFacts) error {
	letGo := map[string]any{"metadata": map[string]any{"finalizers": othersFinalizers(u)}}
	switch {
	case f.Helm == "" || (f.Suspended && !leftSuspended(u)): // uninstalled, or a person's suspension
		return patchRelease(ctx, d.Client, u, letGo, "let go of")
	case f.UninstallSince.IsZero() || f.Suspended:
		annotations := map[string]any{
			backupsv1alpha1.AnnotationSuspendedBy: nil, backupsv1alpha1.AnnotationUninstallSince: d.Now().UTC().Format(time.RFC3339),
		}
		patch := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"suspend": nil}}
		return patchRelease(ctx, d.Client, u, patch, "resume")
	case d.Now().Before(f.uninstallBy()):
		return nil
	}
	d.Events.Eventf(u, nil, corev1.EventTypeWarning, backupsv1alpha1.ReasonUninstallLeft, "Uninstall",
		"Flux did not uninstall Helm release %s within %s: its objects and records are left, remove them with helm uninstall", f.Helm, f.UninstallTime)
	return patchRelease(ctx, d.Client, u, letGo, "let go of")
}
