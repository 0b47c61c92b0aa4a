package lock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch

// Keeper lifts fences that a failed restore left, once the release that they keep from making an empty cluster is gone: what is installed after a full
// uninstall is meant to be new. A fence that names no release is lifted by hand only.
type Keeper struct {
	Store  *Store // its Leases are read uncached
	Leases cache.Cache
	Events events.EventRecorder
	// Wrap, where set, goes around every reconcile.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
}

// SetupWithManager watches the locks and the ends of HelmReleases. Where Flux is not served, no fence names a release.
func (k *Keeper) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("fence").
		WatchesRawSource(source.Kind(k.Leases, &coordinationv1.Lease{}, &handler.TypedEnqueueRequestForObject[*coordinationv1.Lease]{}))
	_, err := mgr.GetRESTMapper().RESTMapping(fluxv2.GroupVersion.WithKind("HelmRelease").GroupKind(), fluxv2.GroupVersion.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("look up kind HelmRelease: %w", err)
	}
	if err == nil {
		b = b.Watches(&fluxv2.HelmRelease{}, handler.EnqueueRequestsFromMapFunc(k.fencesOf))
	}
	var inner reconcile.Reconciler = k
	if k.Wrap != nil {
		inner = k.Wrap(k)
	}
	return b.Complete(inner)
}

// fencesOf finds the locks of a release's namespace that fence.
func (k *Keeper) fencesOf(ctx context.Context, release client.Object) []reconcile.Request {
	leases := &coordinationv1.LeaseList{}
	if err := k.Leases.List(ctx, leases, client.InNamespace(release.GetNamespace()), client.MatchingLabels{LabelFence: LabelFenceValue}); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range leases.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&leases.Items[i])})
	}
	return requests
}

// Reconcile looks at one lock. One without a fence costs no call.
func (k *Keeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lease := &coordinationv1.Lease{}
	if err := k.Leases.Get(ctx, req.NamespacedName, lease); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	application := lease.Annotations[AnnotationApplication]
	if lease.Labels[LabelFence] != LabelFenceValue || lease.Name != Name(application) {
		return ctrl.Result{}, nil
	}
	lifted, err := k.Lift(ctx, req.Namespace, application)
	if fault.ClassOf(err) == fault.Conflict {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil || lifted == "" {
		return ctrl.Result{}, err
	}
	k.Events.Eventf(lease, nil, corev1.EventTypeNormal, backupsv1alpha1.ReasonFenceLifted, "Restore", "HelmRelease %q is gone: an EtcdCluster can be created anew", lifted)
	return ctrl.Result{}, nil
}

// Lift takes the fence of an application down if nobody holds the lock and its release is gone, or is another by now. It returns the name of that release;
// empty where the fence stays.
func (k *Keeper) Lift(ctx context.Context, namespace, application string) (string, error) {
	l, err := k.Store.Get(ctx, namespace, application)
	if err != nil || l.Fence == nil {
		return "", err
	}
	name, uid, named := parseRelease(l.Fence.Release)
	if !named {
		return "", nil
	}
	if l.Holder != nil {
		if ended, err := k.Store.Ended(ctx, namespace, *l.Holder); err != nil || !ended {
			return "", err
		}
	}
	release := &metav1.PartialObjectMetadata{}
	release.SetGroupVersionKind(fluxv2.GroupVersion.WithKind("HelmRelease"))
	err = k.Store.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, release)
	switch {
	case err == nil && release.UID == uid:
		return "", nil
	case err != nil && !apierrors.IsNotFound(err):
		return "", fmt.Errorf("look whether HelmRelease %s/%s is gone: %w", namespace, name, err)
	}
	l.Fence = nil
	return name, k.Store.Save(ctx, l)
}
