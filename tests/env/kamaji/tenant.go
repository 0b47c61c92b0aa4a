package kamaji

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

// TenantFinalizer is kept on a TenantControlPlane until its user, role and keys are gone from etcd.
const TenantFinalizer = "finalizer.kamaji.clastix.io/datastore"

const frozenRecheck = 200 * time.Millisecond

// reconcileTenant gives a control plane its place in the DataStore and its Pods.
func (c *Controller) reconcileTenant(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if c.isFrozen() {
		return ctrl.Result{RequeueAfter: frozenRecheck}, nil
	}
	tcp := &kamajiv1alpha1.TenantControlPlane{}
	if err := c.client.Get(ctx, req.NamespacedName, tcp); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if tcp.Spec.DataStore == "" {
		return ctrl.Result{}, nil
	}
	if !tcp.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.remember(tcp, c.forget(ctx, tcp))
	}
	if err := c.finalizer(ctx, tcp, controllerutil.AddFinalizer, TenantFinalizer); err != nil {
		return ctrl.Result{}, err
	}
	ds := &kamajiv1alpha1.DataStore{}
	err := c.client.Get(ctx, types.NamespacedName{Name: tcp.Spec.DataStore}, ds)
	if apierrors.IsNotFound(err) || (err == nil && !ds.Status.Ready) {
		return ctrl.Result{}, c.remember(tcp, nil) // its watch wakes us
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, c.remember(tcp, c.settle(ctx, tcp, ds))
}

// TenantError tells why the last attempt to set a control plane up failed; "" after a success.
func (c *Controller) TenantError(namespace, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused[types.NamespacedName{Namespace: namespace, Name: name}]
}

func (c *Controller) remember(tcp *kamajiv1alpha1.TenantControlPlane, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(tcp)
	delete(c.refused, key)
	if err != nil {
		c.refused[key] = err.Error()
		c.opts.Log("TenantControlPlane %s: %v", key, err)
	}
	return err
}

func (c *Controller) settle(ctx context.Context, tcp *kamajiv1alpha1.TenantControlPlane, ds *kamajiv1alpha1.DataStore) error {
	ca, err := authorityOf(ctx, c.client, ds)
	if err != nil {
		return fmt.Errorf("DataStore %s: %w", ds.Name, err)
	}
	p := placeOf(tcp)
	if err := c.setUpEtcd(ctx, ds, ca, p); err != nil {
		return err
	}
	certificate, err := c.certificate(ctx, tcp, ca, p)
	if err != nil {
		return err
	}
	config, err := c.storageConfig(ctx, tcp, ds, p)
	if err != nil {
		return err
	}
	before := tcp.DeepCopy()
	now := metav1.Now()
	st := &tcp.Status.Storage
	st.Driver, st.DataStoreName = string(ds.Spec.Driver), ds.Name
	st.Config = kamajiv1alpha1.StorageConfigStatus{SecretName: config.Name, Checksum: checksum(config)}
	if sum := checksum(certificate); st.Certificate.Checksum != sum {
		st.Certificate = kamajiv1alpha1.StorageCertificateStatus{SecretName: certificate.Name, Checksum: sum, LastUpdate: &now}
	}
	if st.Setup.User != p.user || st.Setup.Schema != p.schema {
		st.Setup = kamajiv1alpha1.StorageSetupStatus{Schema: p.schema, User: p.user, Checksum: st.Config.Checksum, LastUpdate: &now}
	}
	tcp.Status.ObservedGeneration = tcp.Generation
	if err := c.client.Status().Patch(ctx, tcp, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	return c.apiServer(ctx, tcp, st.Certificate.Checksum)
}

// forget removes a deleted control plane's traces from etcd. An etcd that cannot be reached any more holds the deletion up, as with Kamaji.
func (c *Controller) forget(ctx context.Context, tcp *kamajiv1alpha1.TenantControlPlane) error {
	if !controllerutil.ContainsFinalizer(tcp, TenantFinalizer) {
		return nil
	}
	if name := tcp.Status.Storage.DataStoreName; name != "" {
		ds, ca, err := liveAuthority(ctx, c.client, name)
		if err != nil {
			return err
		}
		if err := c.clearEtcd(ctx, ds, ca, placeOf(tcp)); err != nil {
			return err
		}
	}
	return c.finalizer(ctx, tcp, controllerutil.RemoveFinalizer, TenantFinalizer)
}

// place is a tenant's part of an etcd.
type place struct{ schema, user string }

func placeOf(tcp *kamajiv1alpha1.TenantControlPlane) place {
	name := strings.ReplaceAll(tcp.Namespace+"_"+tcp.Name, "-", "_")
	p := place{schema: name, user: name}
	if tcp.Spec.DataStoreSchema != "" {
		p.schema = tcp.Spec.DataStoreSchema
	}
	if tcp.Spec.DataStoreUsername != "" {
		p.user = tcp.Spec.DataStoreUsername
	}
	return p
}

// certificate keeps the Secret with the tenant's client certificate, and issues anew when the authority has changed.
func (c *Controller) certificate(ctx context.Context, tcp *kamajiv1alpha1.TenantControlPlane, ca *authority, p place) (*corev1.Secret, error) {
	s := c.secret(tcp, "datastore-certificate")
	_, err := controllerutil.CreateOrUpdate(ctx, c.client, s, func() error {
		if string(s.Data["ca.crt"]) == string(ca.pem) && ca.issued(s.Data["server.crt"]) {
			return nil
		}
		certPEM, keyPEM, err := ca.issue(p.user)
		if err != nil {
			return err
		}
		s.Data = map[string][]byte{"ca.crt": ca.pem, "server.crt": certPEM, "server.key": keyPEM}
		return controllerutil.SetControllerReference(tcp, s, c.client.Scheme())
	})
	return s, err
}

func (c *Controller) storageConfig(ctx context.Context, tcp *kamajiv1alpha1.TenantControlPlane, ds *kamajiv1alpha1.DataStore, p place) (*corev1.Secret, error) {
	s := c.secret(tcp, "datastore-config")
	_, err := controllerutil.CreateOrUpdate(ctx, c.client, s, func() error {
		s.Data = map[string][]byte{"DB_CONNECTION_STRING": []byte(strings.Join(ds.Spec.Endpoints, ",")), "DB_SCHEMA": []byte(p.schema), "DB_USER": []byte(p.user)}
		return controllerutil.SetControllerReference(tcp, s, c.client.Scheme())
	})
	return s, err
}

func (c *Controller) secret(tcp *kamajiv1alpha1.TenantControlPlane, suffix string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tcp.Namespace, Name: tcp.Name + "-" + suffix}}
}

func checksum(s *corev1.Secret) string {
	h := sha256.New()
	for _, k := range []string{"ca.crt", "server.crt", "server.key", "DB_CONNECTION_STRING", "DB_SCHEMA", "DB_USER"} {
		_, _ = fmt.Fprintf(h, "%s %d\n", k, len(s.Data[k]))
		h.Write(s.Data[k])
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
