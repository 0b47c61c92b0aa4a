package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// report is what others read of report.json.
type report struct {
	RevisionDistance *int64
	Snapshot         struct{ Keys int64 }
	Vanish, Appear   struct {
		Keys     int64
		Prefixes []struct {
			Prefix string
			Keys   int64
		}
	}
	ControlPlanes struct{ Affected, Lost, Deleted struct{ Names []string } }
	Fit           struct{ Fits bool }
	Consumers     struct{ Restarted int }
}

// controlPlane makes a TenantControlPlane, in a namespace of its own, and waits for its Pods.
func controlPlane(t *testing.T, namespace, name, dataStore string) []types.UID {
	t.Helper()
	require.NoError(t, platform.Env.Namespace(t.Context(), namespace))
	replicas := int32(2)
	tcp := &kamajiv1alpha1.TenantControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	tcp.Spec.DataStore, tcp.Spec.Kubernetes.Version, tcp.Spec.NetworkProfile = dataStore, "v1.34.0", &kamajiv1alpha1.NetworkProfile{}
	tcp.Spec.ControlPlane.Service.ServiceType, tcp.Spec.ControlPlane.Deployment.Replicas = "ClusterIP", &replicas
	require.NoError(t, platform.Client.Create(t.Context(), tcp))
	t.Cleanup(func() {
		require.NoError(t, platform.Client.Delete(context.Background(), tcp), "its DataStore could not go before it")
	})
	var uids []types.UID
	require.Eventually(t, func() bool { uids = readyPods(t, namespace); return len(uids) == 2 }, 30*time.Second, 100*time.Millisecond, platform.Kamaji.TenantError(namespace, name))
	return uids
}

func readyPods(t *testing.T, namespace string) []types.UID {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, platform.Client.List(t.Context(), pods, client.InNamespace(namespace)))
	var uids []types.UID
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp.IsZero() && p.Status.Phase == corev1.PodRunning {
			uids = append(uids, p.UID)
		}
	}
	return uids
}

func reportOf(t *testing.T, tenant *harness.Tenant, job string) (report, string) {
	t.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(t, platform.Client.Get(t.Context(), types.NamespacedName{Namespace: tenant.Namespace, Name: job + "-report"}, cm))
	var r report
	require.NoError(t, json.Unmarshal([]byte(cm.Data["report.json"]), &r))
	return r, cm.Data["report.txt"]
}

// raiseNoSpace raises the alarm that a full etcd raises itself.
func raiseNoSpace(ctx context.Context, c *clientv3.Client) error {
	s, err := c.Status(ctx, c.Endpoints()[0])
	if err != nil {
		return err
	}
	_, err = pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: s.Header.MemberId, Alarm: pb.AlarmType_NOSPACE})
	return err
}

// A dry run tells exactly what a restore changes, and changes nothing. The restore then does that, lifts the alarm that the snapshot brings along, and restarts
// the control planes' API servers, wherever they are.
func TestDryRunThenRestoreWithConsumers(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant := newTenant(t, "look-first", time.Hour, harness.Quick(1))
	oldPods := controlPlane(t, "look-first-old", "kube", tenant.Namespace)
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/look_first_old_kube/pods/default", "good", 20))
	require.NoError(t, harness.Write(ctx, c, "/look_first_gone_kube/pods/default", "good", 3))
	want, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.NoError(t, raiseNoSpace(ctx, c))
	backUp(t, tenant, "b1")
	_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	require.NoError(t, err)

	_, err = c.Delete(ctx, "/look_first_gone_kube/", clientv3.WithPrefix())
	require.NoError(t, err)
	youngPods := controlPlane(t, "look-first-young", "kube", tenant.Namespace)
	require.NoError(t, harness.Write(ctx, c, "/look_first_young_kube/pods/default", "new", 7))
	require.NoError(t, harness.Write(ctx, c, "/look_first_old_kube/secrets/default", "new", 2))

	a := &artifacts{t: t, tenant: tenant}
	before := a.state()
	stored, err := platform.S3.List(ctx, "")
	require.NoError(t, err)
	_, err = tenant.Restore(ctx, "what-if", "b1", map[string]any{"dryRun": true})
	require.NoError(t, err)
	job, err := tenant.AwaitRestore(ctx, "what-if", time.Minute)
	require.NoError(t, err)
	require.Equal(t, backupsv1alpha1.ReasonDryRun, meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady).Reason)
	require.Eventually(t, func() bool { return a.state() == before }, 20*time.Second, 100*time.Millisecond, "before: %s\nafter: %s", before, a.state())
	after, err := platform.S3.List(ctx, "")
	require.NoError(t, err)
	require.Equal(t, stored, after, "no object is added")
	r, text := reportOf(t, tenant, "what-if")
	t.Log("\n" + text)
	require.Equal(t, int64(9), r.Vanish.Keys)
	require.Equal(t, "[{/look_first_young_kube/pods 7} {/look_first_old_kube/secrets 2}]", fmt.Sprint(r.Vanish.Prefixes))
	require.Equal(t, "[{/look_first_gone_kube/pods 3}]", fmt.Sprint(r.Appear.Prefixes))
	require.Positive(t, *r.RevisionDistance)
	require.Equal(t, int64(len(want)), r.Snapshot.Keys)
	require.Equal(t, []string{"look-first-old/kube", "look-first-young/kube"}, r.ControlPlanes.Affected.Names)
	require.Equal(t, []string{"look-first-young/kube"}, r.ControlPlanes.Lost.Names)
	require.Equal(t, []string{"look_first_gone_kube"}, r.ControlPlanes.Deleted.Names)
	require.True(t, r.Fit.Fits)

	_, err = tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	job, err = tenant.AwaitRestore(ctx, "r1", 2*time.Minute)
	require.NoError(t, err)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, want.Diff(got))
	raised, err := c.AlarmList(ctx)
	require.NoError(t, err)
	require.Empty(t, raised.Alarms)
	_, err = c.Put(ctx, "/look_first_old_kube/pods/default/more", "x")
	require.NoError(t, err, "it can be written to")
	reported := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReported)
	require.Equal(t, backupsv1alpha1.ReasonControlPlanesLost, reported.Reason)
	gone := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionDeleted)
	require.False(t, gone.LastTransitionTime.Before(&reported.LastTransitionTime), "lost control planes are named before the deletion")
	require.True(t, meta.IsStatusConditionTrue(job.Status.Conditions, backupsv1alpha1.ConditionConsumersRestarted), "%+v", job.Status.Conditions)
	for namespace, old := range map[string][]types.UID{"look-first-old": oldPods, "look-first-young": youngPods} {
		now := readyPods(t, namespace)
		require.Len(t, now, 2)
		for _, uid := range old {
			require.NotContains(t, now, uid, namespace)
		}
	}
	r, text = reportOf(t, tenant, "r1")
	t.Log("\n" + text)
	require.Equal(t, 4, r.Consumers.Restarted)
}
