package env

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
)

// tenantComesUp lets every part of the environment meet: Helm installs the tenant chart, cert-manager signs, the operator's double runs real etcd, Kamaji's double
// accepts the DataStore, and a real API server keeps its objects behind it.
func tenantComesUp(t *testing.T, e *Env) {
	const ns = "tenant-a"
	ctx := t.Context()
	require.NoError(t, e.Namespace(ctx, ns))
	root, err := Root()
	require.NoError(t, err)
	began := time.Now()
	_, err = e.Helm.Install(ctx, ns, "etcd", filepath.Join(root, "charts", "etcd"), map[string]any{"replicas": 3})
	require.NoError(t, err)
	cluster := &etcdv1alpha2.EtcdCluster{}
	require.Eventually(t, func() bool {
		err := e.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "etcd"}, cluster)
		return err == nil && cluster.Status.ReadyMembers == 3
	}, 2*time.Minute, 100*time.Millisecond)
	t.Logf("three members are ready %s after helm install", time.Since(began).Round(time.Millisecond))
	store := &kamajiv1alpha1.DataStore{}
	require.Eventually(t, func() bool {
		return e.Client.Get(ctx, client.ObjectKey{Name: ns}, store) == nil && store.Status.Ready
	}, 20*time.Second, 100*time.Millisecond)
	t.Run("real API server", func(t *testing.T) { tenantAPIServer(t, e, ns) })
}

func tenantAPIServer(t *testing.T, e *Env, ns string) {
	ctx := t.Context()
	tenant, err := e.TenantAPIServer(ctx, "shop", ns, ns)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(tenant.Config)
	require.NoError(t, err)
	maps := client.CoreV1().ConfigMaps("default")
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	etcd, err := kamaji.ClientFromDataStore(ctx, e.Client, ns, func(string) string { return e.Front.Addr() })
	require.NoError(t, err)
	defer func() { _ = etcd.Close() }()
	got, err := etcd.Get(ctx, "/shop/configmaps/default/mine", clientv3.WithKeysOnly())
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1, "the tenant's object lies in the tenant's etcd under the tenant's prefix")

	require.NoError(t, tenant.RestartAPIServer(ctx))
	_, err = maps.Get(ctx, "mine", metav1.GetOptions{})
	require.NoError(t, err)
}
