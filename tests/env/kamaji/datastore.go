package kamaji

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

// reconcileStore keeps the finalizer and the status of a DataStore.
func (c *Controller) reconcileStore(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if c.isFrozen() {
		return ctrl.Result{RequeueAfter: frozenRecheck}, nil
	}
	ds := &kamajiv1alpha1.DataStore{}
	if err := c.client.Get(ctx, req.NamespacedName, ds); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ds.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(ds, kamajiv1alpha1.DataStoreFinalizer) {
		return ctrl.Result{}, c.finalizer(ctx, ds, controllerutil.AddFinalizer, kamajiv1alpha1.DataStoreFinalizer)
	}
	users, err := c.usedBy(ctx, ds.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := ds.Status.DeepCopy()
	ds.Status.UsedBy = users
	if !ds.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.releaseStore(ctx, ds)
	}
	c.judge(ctx, ds)
	if equality.Semantic.DeepEqual(before, &ds.Status) {
		return ctrl.Result{}, nil
	}
	// An update, because status.ready is required and a merge patch leaves a false one out.
	return ctrl.Result{}, c.client.Status().Update(ctx, ds)
}

// releaseStore lets a deleted DataStore go once no control plane's status names it.
func (c *Controller) releaseStore(ctx context.Context, ds *kamajiv1alpha1.DataStore) error {
	if len(ds.Status.UsedBy) == 0 {
		return c.finalizer(ctx, ds, controllerutil.RemoveFinalizer, kamajiv1alpha1.DataStoreFinalizer)
	}
	meta.SetStatusCondition(&ds.Status.Conditions, metav1.Condition{
		Type: kamajiv1alpha1.ConditionDataStoreAllowedDeletion, Status: metav1.ConditionFalse, Reason: "DataStoreStillUsed", ObservedGeneration: ds.Generation,
		Message: "The DataStore is still used by a TenantControlPlane.",
	})
	return c.client.Status().Update(ctx, ds)
}

// judge checks that what the spec names exists; whether it is of any use is not looked at.
func (c *Controller) judge(ctx context.Context, ds *kamajiv1alpha1.DataStore) {
	condition := metav1.Condition{Type: kamajiv1alpha1.ConditionDataStoreValidation, Status: metav1.ConditionTrue, Reason: "DataStoreIsValid", ObservedGeneration: ds.Generation}
	if err := missing(ctx, c.client, ds); err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "TLSConfigurationValidationFailed", err.Error()
	}
	meta.SetStatusCondition(&ds.Status.Conditions, condition)
	ds.Status.Ready = condition.Status == metav1.ConditionTrue
	ds.Status.ObservedGeneration = ds.Generation
}

// usedBy lists the control planes whose status, not spec, names the DataStore.
func (c *Controller) usedBy(ctx context.Context, name string) ([]string, error) {
	list := &kamajiv1alpha1.TenantControlPlaneList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil, err
	}
	var users []string
	for i := range list.Items {
		if tcp := &list.Items[i]; tcp.Status.Storage.DataStoreName == name {
			users = append(users, tcp.Namespace+"/"+tcp.Name)
		}
	}
	slices.Sort(users)
	return users, nil
}

type reference struct {
	what string
	ref  kamajiv1alpha1.ContentRef
}

// references are the contents that an etcd DataStore needs.
func references(ds *kamajiv1alpha1.DataStore) []reference {
	t := ds.Spec.TLSConfig
	if t == nil {
		return nil
	}
	refs := []reference{{"CA certificate", t.CertificateAuthority.Certificate}}
	if t.CertificateAuthority.PrivateKey != nil {
		refs = append(refs, reference{"CA private key", *t.CertificateAuthority.PrivateKey})
	}
	if t.ClientCertificate != nil {
		refs = append(refs, reference{"client certificate", t.ClientCertificate.Certificate}, reference{"client private key", t.ClientCertificate.PrivateKey})
	}
	return refs
}

// missing returns the first reference that leads nowhere.
func missing(ctx context.Context, c client.Reader, ds *kamajiv1alpha1.DataStore) error {
	for _, r := range references(ds) {
		if _, err := content(ctx, c, r.ref); err != nil {
			return fmt.Errorf("%s is not valid, %w", r.what, err)
		}
	}
	return nil
}

// finalizer adds or removes one finalizer and touches no other.
func (c *Controller) finalizer(ctx context.Context, obj client.Object, change func(client.Object, string) bool, name string) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok || !change(obj, name) {
		return nil
	}
	err := c.client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}
