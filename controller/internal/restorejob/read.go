package restorejob

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// askRead reads a key as each DataStore's client: that the members agree says nothing about a client whose CA was issued anew, or whose user the snapshot does
// not have. The trust is not taken from the cluster, as that is what Kamaji does not see. Where no DataStore points here, the operator's own client reads.
func (r *Reconciler) askRead(ctx context.Context, w *world, member etcd.Target) {
	for i := range w.seen.Members {
		if w.seen.Members[i].Etcd.Error != "" {
			return
		}
	}
	w.seen.Read = ReadFacts{Asked: true}
	if err := r.read(ctx, w, member); err != nil {
		w.seen.Read.Error = bound(err.Error())
	}
}

func (r *Reconciler) read(ctx context.Context, w *world, member etcd.Target) error {
	stores, err := r.dataStores(ctx, w)
	if err != nil {
		return err
	}
	for i := range stores {
		target, err := etcd.AsDataStore(ctx, r.Reader, &stores[i], member)
		if err != nil {
			return err
		}
		if err := r.readOne(ctx, target); err != nil {
			return fmt.Errorf("the client of DataStore %s cannot read: check its CA and certificate, and with auth on the user: %w", stores[i].Name, err)
		}
	}
	if len(stores) > 0 {
		return nil
	}
	target, err := r.asRoot(ctx, w.cluster, member)
	if err != nil {
		return err
	}
	if err := r.readOne(ctx, target); err != nil {
		return fmt.Errorf("the operator's client cannot read: check spec.tls and spec.auth of the EtcdCluster: %w", err)
	}
	return nil
}

func (r *Reconciler) readOne(ctx context.Context, target etcd.Target) error {
	login, err := r.Logins.DialLogin(target)
	if err != nil {
		return err
	}
	defer func() { _ = login.Close() }()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return login.ReadOne(ctx)
}

// asRoot logs in with what spec.auth names, where auth is on.
func (r *Reconciler) asRoot(ctx context.Context, cluster *unstructured.Unstructured, target etcd.Target) (etcd.Target, error) {
	name := rootSecret(cluster.Object)
	if name == "" {
		return target, nil
	}
	secret := &corev1.Secret{}
	if err := r.Reader.Get(ctx, types.NamespacedName{Namespace: cluster.GetNamespace(), Name: name}, secret); err != nil {
		return target, fmt.Errorf("spec.auth.rootCredentialsSecretRef: read Secret %q: %w", name, err)
	}
	target.User, target.Password = string(secret.Data[corev1.BasicAuthUsernameKey]), string(secret.Data[corev1.BasicAuthPasswordKey])
	if target.User == "" {
		target.User = "root"
	}
	return target, nil
}

// rootSecret names the Secret of an EtcdCluster's login; empty where auth is off.
func rootSecret(cluster map[string]any) string {
	if enabled, _, _ := unstructured.NestedBool(cluster, "spec", "auth", "enabled"); !enabled {
		return ""
	}
	name, _, _ := unstructured.NestedString(cluster, "spec", "auth", "rootCredentialsSecretRef", "name")
	return name
}
