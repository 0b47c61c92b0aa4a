package e2e

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// Beside Cozystack's own driver ours must not touch a job, and must say why; when the Lease runs out it starts by itself.
func TestStaysOffWhileCozystacksDriverIsAlive(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, platform.Env.Namespace(ctx, "guarded"))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "guarded", Name: "strategy.backups.cozystack.io"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("backupstrategy-controller-0"), LeaseDurationSeconds: ptr.To[int32](2), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
	require.NoError(t, platform.Client.Create(ctx, lease))
	defer func() { require.NoError(t, platform.Client.Delete(ctx, lease)) }()
	c, err := platform.StartUnreadyController(ctx)
	require.NoError(t, err)
	defer c.Stop(10 * time.Second)

	tenant := &harness.Tenant{Platform: platform, Namespace: "guarded"}
	_, err = tenant.Backup(ctx, "held-back")
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, answer(t, c.Health+"/readyz"))
	require.Eventually(t, func() bool { return eventReason(t, "guarded", "StockDriverAlive") }, 5*time.Second, 50*time.Millisecond)
	job, err := tenant.BackupJob(ctx, "held-back")
	require.NoError(t, err)
	require.Empty(t, job.Status.Phase, "the job is not ours to touch while the other driver lives")

	require.Eventually(t, func() bool { return answer(t, c.Health+"/readyz") == http.StatusOK }, 20*time.Second, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		job, err := tenant.BackupJob(ctx, "held-back")
		return err == nil && job.Status.Phase != ""
	}, 20*time.Second, 100*time.Millisecond)
	require.Contains(t, c.LogTail(1<<16), "guarded/backupstrategy-controller-0", "the log names the holder")
}

func answer(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func eventReason(t *testing.T, namespace, reason string) bool {
	t.Helper()
	var list eventsv1.EventList
	require.NoError(t, platform.Client.List(t.Context(), &list, client.InNamespace(namespace)))
	for _, e := range list.Items {
		if e.Reason == reason {
			return true
		}
	}
	return false
}
