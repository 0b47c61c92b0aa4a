package e2e

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

var chartSecrets = []string{"etcd-ca-tls", "etcd-peer-ca-tls", "etcd-server-tls", "etcd-peer-tls", "etcd-client-tls"}

// C10: whatever an uninstall leaves of the certificates, a client made from the DataStore logs in after the next install, and each install is a new etcd.
func TestC10ClientsLogInAfterEachInstall(t *testing.T) {
	tenant := &harness.Tenant{Platform: platform, Namespace: "reinstall"}
	require.NoError(t, platform.Env.Namespace(t.Context(), tenant.Namespace))
	chart := filepath.Join(platform.Root, "charts", "etcd")
	var first []byte
	for _, round := range []struct {
		name        string
		forget      bool // delete the Secrets of the former install
		precreate   bool
		sameAsFirst bool // the authority is still that of the first install
	}{
		{name: "first install", sameAsFirst: true},
		{name: "Secrets left behind", sameAsFirst: true},
		{name: "Secrets left behind, pre-created ones asked for", precreate: true, sameAsFirst: true},
		{name: "Secrets deleted", forget: true},
		{name: "Secrets deleted and pre-created", forget: true, precreate: true},
	} {
		if round.forget {
			forgetSecrets(t, tenant.Namespace)
		}
		_, err := platform.Helm.Install(t.Context(), tenant.Namespace, harness.ReleaseName, chart, map[string]any{
			"replicas":     1,
			"certificates": map[string]any{"privateKey": map[string]any{"algorithm": "ECDSA", "size": 256}},
			"dataStore":    map[string]any{"precreateSecrets": round.precreate},
		})
		require.NoError(t, err, round.name)
		_, err = tenant.AwaitWhole(t.Context(), 1, time.Minute)
		require.NoError(t, err, round.name)
		logIn(t, tenant.Namespace, round.name)
		authority := &corev1.Secret{}
		require.NoError(t, platform.Client.Get(t.Context(), client.ObjectKey{Namespace: tenant.Namespace, Name: "etcd-ca-tls"}, authority))
		if first == nil {
			first = authority.Data["tls.crt"]
		}
		require.Equal(t, round.sameAsFirst, bytes.Equal(first, authority.Data["tls.crt"]), round.name)
		require.NoError(t, platform.Helm.Uninstall(tenant.Namespace, harness.ReleaseName), round.name)
		awaitEmpty(t, tenant.Namespace)
	}
}

func forgetSecrets(t *testing.T, namespace string) {
	t.Helper()
	for _, name := range chartSecrets {
		require.NoError(t, platform.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
}

// logIn reads and writes as a tenant of Kamaji would, and finds nothing of an earlier install.
func logIn(t *testing.T, namespace, round string) {
	t.Helper()
	c, err := kamaji.ClientFromDataStore(t.Context(), platform.Client, namespace, func(string) string { return platform.Front.Addr() })
	require.NoError(t, err, round)
	defer func() { _ = c.Close() }()
	found, err := c.Get(t.Context(), "round")
	require.NoError(t, err, round)
	require.Empty(t, found.Kvs, round)
	_, err = c.Put(t.Context(), "round", round)
	require.NoError(t, err, round)
}

// awaitEmpty waits until the operator and the garbage collector have cleared an uninstalled cluster; the Secrets of its certificates stay.
func awaitEmpty(t *testing.T, namespace string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, list := range []client.ObjectList{&etcdv1alpha2.EtcdClusterList{}, &etcdv1alpha2.EtcdMemberList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}} {
			if err := platform.Client.List(t.Context(), list, client.InNamespace(namespace), client.Limit(1)); err != nil || meta.LenList(list) > 0 {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond)
	for _, name := range chartSecrets {
		require.NoError(t, platform.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{}))
	}
}
