package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// asked lets through what helm-controller reacts to: a new generation (a deletion is one too) or a new request annotation.
var asked = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetAnnotations()[fluxv2.AnnotationReconcile] != e.ObjectNew.GetAnnotations()[fluxv2.AnnotationReconcile]
}})

// reconcile does one pass over a HelmRelease.
func (c *Controller) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer c.lock(req.NamespacedName)()
	hr := &fluxv2.HelmRelease{}
	if err := c.client.Get(ctx, req.NamespacedName, hr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !hr.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.finish(ctx, hr)
	}
	if !controllerutil.ContainsFinalizer(hr, fluxv2.Finalizer) {
		if err := c.patchFinalizer(ctx, hr, controllerutil.AddFinalizer); err != nil {
			return ctrl.Result{}, err
		}
	}
	if hr.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	return c.pass(ctx, hr, forceRequested(hr))
}

// forceRequested is true for a force annotation with the token of the reconcile annotation, once per token.
func forceRequested(hr *fluxv2.HelmRelease) bool {
	token := hr.Annotations[fluxv2.AnnotationForce]
	return token != "" && token == hr.Annotations[fluxv2.AnnotationReconcile] && token != hr.Status.LastHandledForceAt
}

// pass brings the release to what the spec says, saving the status before and after each action.
func (c *Controller) pass(ctx context.Context, hr *fluxv2.HelmRelease, forced bool) (ctrl.Result, error) {
	saved := hr.DeepCopy()
	save := func() error {
		err := c.client.Status().Patch(ctx, hr, client.MergeFrom(saved))
		saved = hr.DeepCopy()
		return client.IgnoreNotFound(err)
	}
	hr.Status.LastHandledReconcileAt = hr.Annotations[fluxv2.AnnotationReconcile]
	if token := hr.Annotations[fluxv2.AnnotationForce]; forced && token != "" {
		hr.Status.LastHandledForceAt = token
	}
	setReconciling(hr, "Progressing", "Fulfilling prerequisites")
	if err := save(); err != nil {
		return ctrl.Result{}, err
	}
	run, err := c.newRun(ctx, hr)
	if err != nil {
		setReady(hr, metav1.ConditionFalse, "ArtifactFailed", err.Error())
		return ctrl.Result{}, errors.Join(err, save())
	}
	outcome, err := run.toDesired(ctx, forced, save)
	if outcome.observed {
		hr.Status.ObservedGeneration = hr.Generation
	}
	return outcome.result, errors.Join(err, save())
}

// outcome is how a pass ended.
type outcome struct {
	result   ctrl.Result
	observed bool // nothing is left to do for this generation
}

// finish uninstalls a deleted release unless it is suspended, and lets the object go. It does not ask whether its finalizer is still there: resumed while another finalizer holds the object, a release is uninstalled after all.
func (c *Controller) finish(ctx context.Context, hr *fluxv2.HelmRelease) error {
	if !hr.Spec.Suspend && hr.Status.StorageNamespace != "" {
		if err := c.uninstallDeleted(ctx, hr); err != nil {
			return err
		}
	}
	if !controllerutil.ContainsFinalizer(hr, fluxv2.Finalizer) {
		return nil
	}
	return c.patchFinalizer(ctx, hr, controllerutil.RemoveFinalizer)
}

func (c *Controller) uninstallDeleted(ctx context.Context, hr *fluxv2.HelmRelease) error {
	saved := hr.DeepCopy()
	run := &run{c: c, hr: hr}
	err := error(nil)
	if len(hr.Status.History) > 0 {
		err = run.uninstall(ctx)
	}
	if err != nil {
		setReady(hr, metav1.ConditionFalse, "UninstallFailed", err.Error())
	} else {
		hr.Status.History, hr.Status.StorageNamespace = nil, ""
	}
	patched := c.client.Status().Patch(ctx, hr, client.MergeFrom(saved))
	return errors.Join(err, client.IgnoreNotFound(patched))
}

// patchFinalizer changes our finalizer only, with the list of the object it has read.
func (c *Controller) patchFinalizer(ctx context.Context, hr *fluxv2.HelmRelease, change func(client.Object, string) bool) error {
	before := hr.DeepCopy()
	change(hr, fluxv2.Finalizer)
	err := c.client.Patch(ctx, hr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ForceReconcile runs an upgrade now although nothing changed, even if the release is suspended: it plays a reconciliation that had begun before the suspension. It returns what Helm said.
func (c *Controller) ForceReconcile(ctx context.Context, namespace, name string) error {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	defer c.lock(key)()
	hr := &fluxv2.HelmRelease{}
	if err := c.client.Get(ctx, key, hr); err != nil {
		return err
	}
	_, err := c.pass(ctx, hr, true)
	if err == nil && !ready(hr) {
		err = fmt.Errorf("HelmRelease %s: %s", key, readyMessage(hr))
	}
	return err
}

// Idle tells whether nothing is in progress and the newest generation is dealt with.
func Idle(hr *fluxv2.HelmRelease) bool {
	return hr.Status.ObservedGeneration == hr.Generation && !reconciling(hr)
}

// interval of the release; the API server guarantees that it is set.
func interval(hr *fluxv2.HelmRelease) time.Duration { return hr.Spec.Interval.Duration }
