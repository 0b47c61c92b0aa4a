package restorejob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// Nothing is recreated while an object of any kind that the operator made for the former cluster is there, and each is named with what holds it.
func TestC28NamesWhatHoldsTheFormerCluster(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	job := g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return strings.Contains(j.Status.Message, "tests/hold") })
	require.Equal(t, "False/"+backupsv1alpha1.ReasonWaitingForDeletion, condition(job, "Deleted"))

	held := map[string]client.Object{}
	for kind, list := range map[string]client.ObjectList{
		"EtcdMember": &etcdv1alpha2.EtcdMemberList{}, "Pod": &corev1.PodList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"Service": &corev1.ServiceList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
	} {
		held[kind] = g.hold(list, "tests/of-"+kind)
	}
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	g.await(func() bool { return g.cluster() == nil })
	_, err := g.once("again")
	require.NoError(t, err)
	job = g.job("again")
	require.Equal(t, "False/"+backupsv1alpha1.ReasonWaitingForDeletion, condition(job, "Deleted"))
	for kind, o := range held {
		require.Contains(t, job.Status.Message, kind+" "+o.GetName()+", held by")
		require.Contains(t, job.Status.Message, "tests/of-"+kind)
	}
	for _, o := range held {
		require.NoError(t, g.admin.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	}
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}

// hold keeps one object of the former cluster from going away.
func (g *rig) hold(list client.ObjectList, finalizer string) client.Object {
	g.t.Helper()
	require.NoError(g.t, g.admin.List(g.t.Context(), list, client.InNamespace(g.ns), client.MatchingLabels{etcdv1alpha2.LabelCluster: "etcd"}))
	items, err := meta.ExtractList(list)
	require.NoError(g.t, err)
	require.NotEmpty(g.t, items)
	o, ok := items[0].(client.Object)
	require.True(g.t, ok)
	o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	require.NoError(g.t, g.admin.Update(g.t.Context(), o))
	return o
}
