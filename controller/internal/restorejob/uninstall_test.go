package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func TestC60AnUninstallThatNeverEndsIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	hr := &fluxv2.HelmRelease{}
	require.NoError(t, g.admin.Get(t.Context(), client.ObjectKey{Namespace: g.ns, Name: "etcd"}, hr))
	at := metav1.Now()
	hr.Status.History = []fluxv2.Snapshot{{Name: "etcd", Namespace: g.ns, Version: 1, Status: "deployed", ChartName: "etcd", ChartVersion: "1", FirstDeployed: at, LastDeployed: at}}
	require.NoError(t, g.admin.Status().Update(t.Context(), hr))
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	require.NoError(t, g.admin.Delete(t.Context(), g.helmRelease()))

	g.when("again", backupsv1alpha1.ReasonUninstalling)
	require.Nil(t, g.suspended(), "helm-controller may uninstall")
	require.Contains(t, g.helmRelease().GetFinalizers(), backupsv1alpha1.RestoreFinalizer, "and the object stays for it")
	g.late = 6 * time.Minute
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonAborted, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "did not uninstall Helm release "+g.ns+"/etcd")
	require.Contains(t, job.Status.Message, "tests/hold")
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
}
