package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// Where the restored cluster fails and the way back fails too, Flux stays suspended and can bring up nothing empty. What is left has no quorum, and so no
// safety copy; a new RestoreJob of the former one's safety copy brings the live data back from there, and Flux with it.
func TestRestoreAndWayBackFailAndANewRestoreMendsIt(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant, _ := backedUp(t, "disaster")
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/later", "live", 10))
	live, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	ours := func(namespace, _ string) bool { return namespace == tenant.Namespace }
	platform.Operator.Faults.Update(func(p *etcdoperator.Plan) { p.FailSeed, p.GiveUp = ours, ours })
	t.Cleanup(platform.Operator.Faults.Clear)

	_, err = tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	job, err := tenant.AwaitRestore(ctx, "r1", 2*time.Minute)
	require.Error(t, err)
	stalled := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionStalled)
	require.NotNil(t, stalled, "%+v", job.Status)
	require.Equal(t, backupsv1alpha1.ReasonRollbackFailed, stalled.Reason, stalled.Message)
	require.Contains(t, stalled.Message, `Backup "r1"`, "what remains to do")
	hr := &fluxv2.HelmRelease{}
	require.NoError(t, platform.Client.Get(ctx, key(tenant.Namespace, harness.ReleaseName), hr))
	require.True(t, hr.Spec.Suspend)
	cluster, err := tenant.Cluster(ctx)
	require.NoError(t, err)
	require.NotNil(t, cluster.Spec.Bootstrap, "nothing empty has come up")
	require.NoError(t, platform.Client.Delete(ctx, cluster))
	require.Eventually(t, func() bool { return fenced(platform.Flux.ForceReconcile(ctx, tenant.Namespace, harness.ReleaseName)) }, time.Minute, 200*time.Millisecond,
		"an upgrade is refused for as long as there is no cluster")

	platform.Operator.Faults.Clear()
	_, err = tenant.Restore(ctx, "r2", "r1", nil)
	require.NoError(t, err)
	_, err = tenant.AwaitRestore(ctx, "r2", 2*time.Minute)
	require.NoError(t, err)
	_, err = tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(t, err)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, live.Diff(got), "what was live before the first restore")
	require.NoError(t, platform.Client.Get(ctx, key(tenant.Namespace, harness.ReleaseName), hr))
	require.False(t, hr.Spec.Suspend)
}

// A cluster whose members are dead is restored without a safety copy, which the RestoreJob says.
func TestRestoreOfAClusterWithoutQuorum(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant := newTenant(t, "no-quorum", time.Hour, harness.Quick(1))
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/registry", "good", 20))
	want, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	backUp(t, tenant, "b1")
	require.NoError(t, harness.Write(ctx, c, "/registry", "bad", 10))
	kill(t, tenant)

	_, err = tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	job, err := tenant.AwaitRestore(ctx, "r1", 3*time.Minute)
	require.NoError(t, err)
	copied := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionSafetyCopied)
	require.Equal(t, backupsv1alpha1.ReasonSafetySnapshotSkipped, copied.Reason, copied.Message)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, want.Diff(got))
}

// kill ends the cluster's members for good; those of a later cluster have other names.
func kill(t *testing.T, tenant *harness.Tenant) {
	t.Helper()
	members := &etcdv1alpha2.EtcdMemberList{}
	require.NoError(t, platform.Client.List(t.Context(), members, client.InNamespace(tenant.Namespace)))
	require.NotEmpty(t, members.Items)
	dead := map[string]bool{}
	for _, m := range members.Items {
		dead[m.Name] = true
	}
	platform.Operator.Faults.Update(func(p *etcdoperator.Plan) {
		p.HoldContainer = func(namespace, pod, _ string) bool { return namespace == tenant.Namespace && dead[pod] }
	})
	t.Cleanup(platform.Operator.Faults.Clear)
	for name := range dead {
		require.NoError(t, platform.Operator.KillMember(tenant.Namespace, name))
	}
}
