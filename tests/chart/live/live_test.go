// Package live installs charts/etcd through Helm on a real API server with cert-manager's own controllers. There is no operator, so nothing runs; what is shown
// is what Helm, the CRDs' rules and cert-manager make of the chart.
package live

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/chart"
	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helm"
)

// fixture is one environment and a Helm client, shared by the tests, each in a namespace of its own.
type fixture struct {
	*env.Env
	helm *helm.Client
}

func TestChartOnARealAPIServer(t *testing.T) {
	e, err := env.Start(t.Context(), env.Options{Name: "chart", NoOperator: true, NoFlux: true, NoKamaji: true, NoS3: true})
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	h, err := helm.New(e.Config)
	require.NoError(t, err)
	f := &fixture{e, h}
	for name, test := range map[string]func(*testing.T, *fixture){
		"certificates":          issuesUsableCertificates,
		"immutable fields":      refusesImmutableChanges,
		"restored cluster":      upgradesARestoredCluster,
		"foreign DataStore":     refusesTheDataStoreOfAnother,
		"terminating DataStore": waitsForTheDataStoreToGo,
		"precreated Secrets":    fillsPrecreatedSecrets,
		"leftover Secrets":      reinstallsOverLeftovers,
		"uninstall leaves":      uninstallLeavesOnlySecrets,
	} {
		t.Run(name, func(t *testing.T) { test(t, f) })
	}
}

type values = map[string]any

// ecdsa makes keys in no time; the sizes that tenants get are slow to make and are checked once.
func ecdsa(more values) values {
	v := values{"certificates": values{"privateKey": values{"algorithm": "ECDSA", "size": 256}}}
	for key, value := range more {
		v[key] = value
	}
	return v
}

func dir() string { return filepath.Join(chart.Root(), "charts", "etcd") }

func (f *fixture) install(t *testing.T, namespace string, v values) {
	t.Helper()
	require.NoError(t, f.Namespace(t.Context(), namespace))
	_, err := f.helm.Install(t.Context(), namespace, "etcd", dir(), v)
	require.NoError(t, err)
}

func (f *fixture) upgrade(t *testing.T, namespace string, v values) error {
	t.Helper()
	_, err := f.helm.Upgrade(t.Context(), namespace, "etcd", dir(), v)
	return err
}

func (f *fixture) cluster(t *testing.T, namespace string) *etcdv1alpha2.EtcdCluster {
	t.Helper()
	cluster := &etcdv1alpha2.EtcdCluster{}
	require.NoError(t, f.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "etcd"}, cluster))
	return cluster
}

var allSecrets = []string{"etcd-ca-tls", "etcd-peer-ca-tls", "etcd-server-tls", "etcd-peer-tls", "etcd-client-tls"}

// secrets waits until all five Secrets hold a certificate, its key and its authority.
func (f *fixture) secrets(t *testing.T, namespace string) map[string]map[string][]byte {
	t.Helper()
	got := map[string]map[string][]byte{}
	require.Eventually(t, func() bool {
		for _, name := range allSecrets {
			secret := &corev1.Secret{}
			if f.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret) != nil {
				return false
			}
			for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
				if len(secret.Data[key]) == 0 {
					return false
				}
			}
			got[name] = secret.Data
		}
		return true
	}, 2*time.Minute, 100*time.Millisecond)
	return got
}

func refusesImmutableChanges(t *testing.T, f *fixture) {
	const ns = "immutable"
	f.install(t, ns, ecdsa(values{"storageClass": "fast", "size": "4Gi"}))
	before := f.cluster(t, ns)
	member := &etcdv1alpha2.EtcdMember{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "etcd-x7k2p"}}
	member.Spec.ClusterName, member.Spec.ClusterToken, member.Spec.InitialCluster, member.Spec.Version = "etcd", "t", "i", before.Spec.Version
	require.NoError(t, f.Client.Create(t.Context(), member))
	for _, c := range []struct {
		change values
		want   string
	}{
		{values{"storageClass": "slow"}, "spec.storage.storageClassName"},
		{values{"storageClass": ""}, "spec.storage.storageClassName"},
		{values{"storageClass": "-"}, "spec.storage.storageClassName"},
		{values{"storageClass": "fast", "size": "4G"}, "spec.storage.size"},
	} {
		v := ecdsa(values{"replicas": 5})
		for key, value := range c.change {
			v[key] = value
		}
		err := f.upgrade(t, ns, v)
		require.ErrorContains(t, err, c.want, c.change)
		require.ErrorContains(t, err, "backup + restore", c.change)
	}
	require.ErrorContains(t, f.upgrade(t, ns, values{"storageClass": "fast"}), "certificates.privateKey")
	require.ErrorContains(t, f.upgrade(t, ns, ecdsa(values{"storageClass": "fast", "version": "3.5.26"})), "version: members run 3.6.11, these values give 3.5.26")
	require.Equal(t, before.ResourceVersion, f.cluster(t, ns).ResourceVersion, "nothing was applied")
	release, err := f.helm.Get(ns, "etcd")
	require.NoError(t, err)
	require.Equal(t, 1, release.Version, "no failed revision is left")

	require.NoError(t, f.upgrade(t, ns, ecdsa(values{"storageClass": "fast", "size": "8Gi", "replicas": 5, "version": "3.6.16"})))
	require.EqualValues(t, 5, *f.cluster(t, ns).Spec.Replicas)
}

// C57: after a restore the live object carries bootstrap, which the chart never mentions.
func upgradesARestoredCluster(t *testing.T, f *fixture) {
	const ns = "restored"
	f.install(t, ns, ecdsa(nil))
	old := f.cluster(t, ns)
	require.NoError(t, f.Client.Delete(t.Context(), old))
	restored := &etcdv1alpha2.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "etcd", Labels: old.Labels, Annotations: old.Annotations},
		Spec:       *old.Spec.DeepCopy(),
	}
	restored.Spec.Bootstrap = &etcdv1alpha2.BootstrapSpec{Restore: &etcdv1alpha2.RestoreSpec{}}
	s3 := &etcdv1alpha2.S3Location{Endpoint: "https://s3.example.org", Bucket: "b", Key: "k.db"}
	s3.CredentialsSecretRef.Name = "creds"
	restored.Spec.Bootstrap.Restore.Source.S3 = s3
	require.NoError(t, f.Client.Create(t.Context(), restored))
	require.NoError(t, f.upgrade(t, ns, ecdsa(values{"replicas": 5})))
	after := f.cluster(t, ns)
	require.Equal(t, restored.UID, after.UID)
	require.EqualValues(t, 5, *after.Spec.Replicas)
	require.Equal(t, restored.Spec.Bootstrap, after.Spec.Bootstrap)
}

// C07: the DataStore is cluster-scoped.
func refusesTheDataStoreOfAnother(t *testing.T, f *fixture) {
	const ns, other = "store-a", "store-b"
	f.install(t, ns, ecdsa(nil))
	require.NoError(t, f.Namespace(t.Context(), other))
	_, err := f.helm.Install(t.Context(), other, "etcd", dir(), ecdsa(values{"dataStore": values{"name": ns}}))
	require.ErrorContains(t, err, `DataStore "store-a" belongs to the release store-a/etcd`)
	err = f.Client.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "etcd"}, &etcdv1alpha2.EtcdCluster{})
	require.True(t, apierrors.IsNotFound(err))
	f.install(t, other, ecdsa(nil))
}

// C08: what is still being deleted, such as a DataStore that Kamaji holds while a TenantControlPlane uses it, would be patched by an install and gone a moment later.
func waitsForTheDataStoreToGo(t *testing.T, f *fixture) {
	const ns = "held"
	f.install(t, ns, ecdsa(nil))
	store := &kamajiv1alpha1.DataStore{}
	require.NoError(t, f.Client.Get(t.Context(), client.ObjectKey{Name: ns}, store))
	store.Finalizers = append(store.Finalizers, "kamaji.clastix.io/TenantControlPlane")
	require.NoError(t, f.Client.Update(t.Context(), store))
	cluster := f.cluster(t, ns)
	cluster.Finalizers = append(cluster.Finalizers, "example.org/hold")
	require.NoError(t, f.Client.Update(t.Context(), cluster))
	require.NoError(t, f.helm.Uninstall(ns, "etcd"))
	_, err := f.helm.Install(t.Context(), ns, "etcd", dir(), ecdsa(nil))
	require.ErrorContains(t, err, `EtcdCluster "etcd" is being deleted`)
	require.ErrorContains(t, err, "example.org/hold")

	cluster = f.cluster(t, ns)
	cluster.Finalizers = nil
	require.NoError(t, f.Client.Update(t.Context(), cluster))
	_, err = f.helm.Install(t.Context(), ns, "etcd", dir(), ecdsa(nil))
	require.ErrorContains(t, err, `DataStore "held" is being deleted`)
	require.ErrorContains(t, err, "TenantControlPlane")

	require.NoError(t, f.Client.Get(t.Context(), client.ObjectKey{Name: ns}, store))
	store.Finalizers = nil
	require.NoError(t, f.Client.Update(t.Context(), store))
	f.install(t, ns, ecdsa(nil))
}

// The Secrets exist before the DataStore does, cert-manager fills them, and neither an upgrade nor a second install touches the filled ones.
func fillsPrecreatedSecrets(t *testing.T, f *fixture) {
	const ns = "precreated"
	v := ecdsa(values{"dataStore": values{"precreateSecrets": true}})
	f.install(t, ns, v)
	store, ca := &kamajiv1alpha1.DataStore{}, &corev1.Secret{}
	require.NoError(t, f.Client.Get(t.Context(), client.ObjectKey{Name: ns}, store))
	require.NoError(t, f.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "etcd-ca-tls"}, ca))
	require.False(t, store.CreationTimestamp.Before(&ca.CreationTimestamp))
	filled := f.secrets(t, ns)
	require.NoError(t, f.upgrade(t, ns, ecdsa(values{"replicas": 5, "dataStore": values{"precreateSecrets": true}})))
	require.NoError(t, f.upgrade(t, ns, ecdsa(nil)))
	require.NoError(t, f.helm.Uninstall(ns, "etcd"))
	f.install(t, ns, v)
	require.Equal(t, filled, f.secrets(t, ns), "a second install over the Secrets of the first")
}

// C10: all Secrets left, none left, and a mixture that cert-manager would not repair.
func reinstallsOverLeftovers(t *testing.T, f *fixture) {
	const ns = "again"
	f.install(t, ns, ecdsa(nil))
	first := f.secrets(t, ns)
	require.NoError(t, f.helm.Uninstall(ns, "etcd"))
	f.install(t, ns, ecdsa(nil))
	require.Equal(t, first, f.secrets(t, ns))

	require.NoError(t, f.helm.Uninstall(ns, "etcd"))
	_, err := f.helm.Install(t.Context(), ns, "etcd", dir(), nil)
	require.ErrorContains(t, err, "Secret etcd-ca-tls of an earlier install has a key ECDSA 256, these values give RSA 4096")
	f.deleteSecrets(t, ns, "etcd-ca-tls")
	_, err = f.helm.Install(t.Context(), ns, "etcd", dir(), ecdsa(nil))
	require.ErrorContains(t, err, "Secret etcd-server-tls is left from an earlier install")

	f.deleteSecrets(t, ns, allSecrets...)
	f.install(t, ns, ecdsa(nil))
	second := f.secrets(t, ns)
	require.NotEqual(t, first["etcd-ca-tls"]["tls.crt"], second["etcd-ca-tls"]["tls.crt"])
	for leaf, authority := range map[string]string{"etcd-server-tls": "etcd-ca-tls", "etcd-client-tls": "etcd-ca-tls", "etcd-peer-tls": "etcd-peer-ca-tls"} {
		verify(t, second[leaf], second[authority])
	}
}

func (f *fixture) deleteSecrets(t *testing.T, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		err := f.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		require.NoError(t, client.IgnoreNotFound(err))
	}
}

// C08: nothing of the release stays but the certificates' Secrets, which cert-manager leaves.
func uninstallLeavesOnlySecrets(t *testing.T, f *fixture) {
	const ns = "gone"
	f.install(t, ns, ecdsa(nil))
	f.secrets(t, ns)
	require.NoError(t, f.helm.Uninstall(ns, "etcd"))
	require.Eventually(t, func() bool {
		return f.absent(t.Context(), ns, &etcdv1alpha2.EtcdCluster{}, "etcd") && f.absent(t.Context(), "", &kamajiv1alpha1.DataStore{}, ns) &&
			f.absent(t.Context(), ns, &corev1.Service{}, "etcd-headless")
	}, 20*time.Second, 50*time.Millisecond)
	f.secrets(t, ns)
}

func (f *fixture) absent(ctx context.Context, namespace string, object client.Object, name string) bool {
	return apierrors.IsNotFound(f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
}
