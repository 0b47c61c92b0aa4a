package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// A restored cluster whose first member never starts is replaced by one with the data from just before the restore.
func TestRestoreThatFailsGoesBackToTheLiveData(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant := newTenant(t, "way-back", 5*time.Minute, harness.Quick(1))
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/registry", "good", 20))
	backUp(t, tenant, "b1")
	require.NoError(t, harness.Write(ctx, c, "/later", "live", 10))
	live, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)

	platform.Operator.Faults.Update(func(p *etcdoperator.Plan) {
		p.FailSeed = func(namespace, name string) bool {
			cluster := &etcdv1alpha2.EtcdCluster{}
			if namespace != tenant.Namespace || platform.Client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, cluster) != nil {
				return false
			}
			b := cluster.Spec.Bootstrap
			return b != nil && b.Restore != nil && !strings.Contains(b.Restore.Source.S3.Key, "/r1-")
		}
	})
	t.Cleanup(platform.Operator.Faults.Clear)
	_, err = tenant.Restore(ctx, "r1", "b1", map[string]any{"restoreTimeoutSeconds": 40})
	require.NoError(t, err)
	job, err := tenant.AwaitRestore(ctx, "r1", 3*time.Minute)
	require.Error(t, err, "the restore itself has failed")
	require.Equal(t, backupsv1alpha1.ReasonRolledBack, meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady).Reason, "%+v", job.Status)
	platform.Operator.Faults.Clear()
	_, err = tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(t, err)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, live.Diff(got), "what was live before the restore is back")

	_, err = tenant.Restore(ctx, "r2", "r1", nil)
	require.NoError(t, err)
	_, err = tenant.AwaitRestore(ctx, "r2", 2*time.Minute)
	require.NoError(t, err, "the safety copy is a Backup like any other")
	got, err = harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, live.Diff(got))
	requireUninstalls(t, tenant)
}
