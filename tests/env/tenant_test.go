package env

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

// TestTenantComesUp lets every part of the environment meet: Helm installs the tenant chart, cert-manager signs, the operator's double runs real etcd, Kamaji's
// double accepts the DataStore.
func TestTenantComesUp(t *testing.T) {
	e, err := Start(t.Context(), Options{Name: "tenant"})
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	const ns = "tenant-a"
	require.NoError(t, e.Namespace(t.Context(), ns))
	root, err := Root()
	require.NoError(t, err)
	began := time.Now()
	values := map[string]any{"replicas": 3}
	_, err = e.Helm.Install(t.Context(), ns, "etcd", filepath.Join(root, "charts", "etcd"), values)
	require.NoError(t, err)
	cluster := &etcdv1alpha2.EtcdCluster{}
	require.Eventually(t, func() bool {
		err := e.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "etcd"}, cluster)
		return err == nil && cluster.Status.ReadyMembers == 3
	}, 2*time.Minute, 100*time.Millisecond)
	t.Logf("three members are ready %s after helm install", time.Since(began).Round(time.Millisecond))
	store := &kamajiv1alpha1.DataStore{}
	require.Eventually(t, func() bool {
		return e.Client.Get(t.Context(), client.ObjectKey{Name: ns}, store) == nil && store.Status.Ready
	}, 20*time.Second, 100*time.Millisecond)
	e.Stop()
	require.Empty(t, children(t), "the members end with the environment")
}
