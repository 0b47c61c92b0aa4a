package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// leftSuspended is a release as a failed restore leaves it, and deleted since.
func (g *rig) leftSuspended(mark string) {
	g.t.Helper()
	hr := newRelease()
	hr.Finalizers = append(hr.Finalizers, backupsv1alpha1.UninstallFinalizer)
	hr.Annotations = map[string]string{backupsv1alpha1.AnnotationSuspendedBy: mark}
	hr.Spec.Suspend = true
	hr.SetNamespace(g.ns)
	require.NoError(g.t, g.admin.Create(g.t.Context(), hr, client.FieldOwner(FieldManager)))
	at := metav1.Now()
	g.history(fluxv2.Snapshot{Name: "etcd", Namespace: g.ns, Version: 1, Status: "deployed", ChartName: "etcd", ChartVersion: "1", FirstDeployed: at, LastDeployed: at})
	require.NoError(g.t, g.admin.Delete(g.t.Context(), hr))
}

func (g *rig) history(snapshots ...fluxv2.Snapshot) {
	g.t.Helper()
	hr := &fluxv2.HelmRelease{}
	require.NoError(g.t, g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: "etcd"}, hr))
	hr.Status.History = snapshots
	require.NoError(g.t, g.admin.Status().Update(g.t.Context(), hr))
}

func (g *rig) seeOff() time.Duration {
	g.t.Helper()
	d := &Departures{Client: g.admin, Reader: g.admin, Events: g.events, Now: func() time.Time { return time.Now().Add(g.late) }}
	res, err := d.Reconcile(g.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: g.ns, Name: "etcd"}})
	require.NoError(g.t, err)
	return res.RequeueAfter
}

func TestAReleaseThatAFailedRestoreLeftSuspendedIsUninstalled(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	require.Zero(t, g.seeOff(), "there is none")
	g.leftSuspended("some-job")
	require.Equal(t, recheckUninstall, g.seeOff())
	require.Nil(t, g.suspended(), "Flux may uninstall")
	require.Equal(t, recheckUninstall, g.seeOff(), "it gets its time")
	require.Contains(t, g.helmRelease().GetFinalizers(), backupsv1alpha1.UninstallFinalizer)
	g.history()
	g.seeOff()
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	require.Empty(t, g.events.Events)
	require.Zero(t, g.seeOff(), "it is nobody's here any more")
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
}

func TestAnUninstallThatNeverComesIsSaid(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.leftSuspended("some-job")
	g.seeOff()
	g.late = 6 * time.Minute
	g.seeOff()
	require.Contains(t, <-g.events.Events, "did not uninstall Helm release "+g.ns+"/etcd within 5m0s")
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
}

func TestTheDepartureOfAReleaseThatSomebodyElseHolds(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.leftSuspended("")
	g.seeOff()
	require.Equal(t, true, g.suspended(), "a person's suspension is never lifted")
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	g.patchRelease(`{"metadata":{"finalizers":null}}`)

	hr := newRelease()
	hr.Finalizers = []string{backupsv1alpha1.UninstallFinalizer, backupsv1alpha1.RestoreFinalizer}
	g.create(hr)
	require.NoError(t, g.admin.Delete(t.Context(), hr))
	require.Zero(t, g.seeOff(), "a restore at work sees to it")
	require.Len(t, g.helmRelease().GetFinalizers(), 2)
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
}

// A restore fails and leaves the release suspended; somebody resumes it by hand, which leaves the mark; later an administrator suspends it.
func TestC26AStaleMarkDoesNotMakeASuspensionOurs(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	release := func(manager, patch string) {
		t.Helper()
		require.NoError(t, g.admin.Patch(t.Context(), g.helmRelease(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner(manager)))
	}
	release(FieldManager, `{"metadata":{"annotations":{"cozy-etcd.io/suspended-by":"failed-job"}},"spec":{"suspend":true}}`)
	require.True(t, leftSuspended(g.helmRelease()))
	release("flux", `{"spec":{"suspend":false}}`)
	require.False(t, leftSuspended(g.helmRelease()))
	release("flux", `{"spec":{"suspend":true}}`)
	require.False(t, leftSuspended(g.helmRelease()))

	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, "True/"+backupsv1alpha1.ReasonSuspendedBefore, condition(job, "Suspended"))
	require.Equal(t, true, g.suspended(), "an administrator's suspension is never lifted")
	require.Empty(t, g.helmRelease().GetAnnotations(), "the stale mark is gone")
}
