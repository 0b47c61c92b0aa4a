package kube

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// bin is the repository's bin unless COZY_ETCD_BIN says otherwise.
func bin(t *testing.T) string {
	if dir := os.Getenv("COZY_ETCD_BIN"); dir != "" {
		return dir
	}
	dir, err := filepath.Abs("../../../bin")
	require.NoError(t, err)
	return dir
}

func TestControlPlaneServesAndStops(t *testing.T) {
	began := time.Now()
	c, err := Start(t.Context(), Options{Dir: t.TempDir(), Bin: bin(t), Audit: true})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	t.Logf("the API server is ready after %s", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	require.NoError(t, c.StartControllers(t.Context()))
	t.Logf("the garbage collector works %s later", time.Since(began).Round(time.Millisecond))

	client, err := kubernetes.NewForConfig(c.Config)
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), "tenant", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "tenant", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, 20*time.Second, 50*time.Millisecond, "a deleted namespace goes away")
	log, err := os.ReadFile(c.AuditLog)
	require.NoError(t, err)
	require.Contains(t, string(log), `"/api/v1/namespaces/tenant"`)

	c.Stop()
	_, err = client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "refused")
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Options{Dir: t.TempDir(), Bin: bin(t)})
	require.ErrorContains(t, err, "kube-etcd")
}
