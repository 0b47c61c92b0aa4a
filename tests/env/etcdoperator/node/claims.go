package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// provisionedBy marks the volumes of this node; others are left alone.
const provisionedBy = "cozy-etcd.test/loopback"

const blockedRecheck = 200 * time.Millisecond

// claims binds each claim that belongs to an EtcdMember to a folder with a PersistentVolume of its own, and reclaims the volume when the claim is gone.
type claims struct{ *Node }

func (n *Node) setupClaims(m ctrl.Manager) error {
	byVolume := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		pv, ok := o.(*corev1.PersistentVolume)
		if !ok || pv.Spec.ClaimRef == nil {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}}}
	})
	return ctrl.NewControllerManagedBy(m).Named("loopback-claims-"+filepath.Base(n.opts.Dir)).WithOptions(controllerOptions()).
		For(&corev1.PersistentVolumeClaim{}).Watches(&corev1.PersistentVolume{}, byVolume).Complete(claims{n})
}

func (c claims) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := c.client.Get(ctx, req.NamespacedName, claim)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return ctrl.Result{}, err
	}
	if err := c.reclaim(ctx, req.NamespacedName, claim.UID); err != nil {
		return ctrl.Result{}, err
	}
	if gone {
		c.release(types.NamespacedName{Namespace: req.Namespace, Name: strings.TrimPrefix(req.Name, "data-")})
		return ctrl.Result{}, nil
	}
	owner := metav1.GetControllerOf(claim)
	if owner == nil || owner.Kind != "EtcdMember" || !claim.DeletionTimestamp.IsZero() || claim.Status.Phase == corev1.ClaimBound {
		return ctrl.Result{}, nil
	}
	if block := c.opts.Hooks.BlockClaim; block != nil && block(claim.Namespace, claim.Name) {
		return ctrl.Result{RequeueAfter: blockedRecheck}, nil
	}
	return ctrl.Result{}, c.bind(ctx, claim)
}

func (c claims) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	name := "pv-" + string(claim.UID)
	if err := os.MkdirAll(c.volumePath(name), 0o700); err != nil {
		return err
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisionedBy}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              deref(claim.Spec.StorageClassName),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: c.volumePath(name)}},
		},
	}
	if err := c.client.Create(ctx, pv); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.volumePhase(ctx, name, corev1.VolumeBound); err != nil {
		return err
	}
	before := claim.DeepCopy()
	claim.Spec.VolumeName = name
	claim.Annotations = with(claim.Annotations, "pv.kubernetes.io/bind-completed", "yes", "pv.kubernetes.io/bound-by-controller", "yes")
	if err := c.client.Patch(ctx, claim, client.MergeFrom(before)); err != nil {
		return err
	}
	before = claim.DeepCopy()
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: pv.Spec.AccessModes, Capacity: pv.Spec.Capacity}
	return c.client.Status().Patch(ctx, claim, client.MergeFrom(before))
}

// reclaim treats the volumes of a claim name that are not of the claim now living: Delete removes volume and data, Retain keeps both as Released.
func (c claims) reclaim(ctx context.Context, claim types.NamespacedName, living types.UID) error {
	list := &corev1.PersistentVolumeList{}
	if err := c.client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		pv := &list.Items[i]
		ref := pv.Spec.ClaimRef
		if pv.Annotations["pv.kubernetes.io/provisioned-by"] != provisionedBy || ref == nil || ref.UID == living ||
			ref.Namespace != claim.Namespace || ref.Name != claim.Name {
			continue
		}
		if err := c.letGo(ctx, pv); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (c claims) letGo(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		if pv.Status.Phase == corev1.VolumeReleased {
			return nil
		}
		return c.volumePhase(ctx, pv.Name, corev1.VolumeReleased)
	}
	if pv.DeletionTimestamp.IsZero() {
		// A volume that is still Bound is kept by the protection finalizer.
		if err := c.volumePhase(ctx, pv.Name, corev1.VolumeReleased); err != nil {
			return err
		}
		if err := c.client.Delete(ctx, pv); err != nil {
			return err
		}
	}
	return os.RemoveAll(c.volumePath(pv.Name))
}

func (c claims) volumePhase(ctx context.Context, name string, phase corev1.PersistentVolumePhase) error {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.client.Status().Patch(ctx, pv, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"`+string(phase)+`"}}`)))
}

func (n *Node) volumePath(volume string) string { return filepath.Join(n.opts.Dir, "volumes", volume) }
