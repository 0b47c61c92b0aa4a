package helmcontroller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
)

const foreignFinalizer = "example.test/held"

func suspend(hr *fluxv2.HelmRelease) { hr.Spec.Suspend = true }

func hold(hr *fluxv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, foreignFinalizer) }

func unhold(t *testing.T, hr *fluxv2.HelmRelease) {
	t.Helper()
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { hr.Finalizers = nil })
}

func TestSuspendedReleaseIsNotTouchedUntilResumed(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	patchSpec(t, hr, suspend)
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"replicas": 3}) })
	never(t, 2500*time.Millisecond, func() bool { return *etcdCluster(t, ns).Spec.Replicas == 3 })
	require.NoError(t, cl.Get(t.Context(), client.ObjectKeyFromObject(hr), hr))
	require.Less(t, hr.Status.ObservedGeneration, hr.Generation, "a suspended generation is not observed")
	change(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Suspend = false })
	require.Equal(t, int32(3), *etcdCluster(t, ns).Spec.Replicas)
}

func TestActionThatBeganBeforeTheSuspensionRunsToItsEnd(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	entered, release := flux.Hold(ns, "demo")
	defer release()
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"replicas": 3}) })
	<-entered
	patchSpec(t, hr, suspend)
	require.False(t, helmcontroller.Idle(hr), "the condition tells that an action is in progress")
	release()
	require.Eventually(t, func() bool { return *etcdCluster(t, ns).Spec.Replicas == 3 }, 10*time.Second, 50*time.Millisecond)
}

func TestReleaseDeletedWhileSuspendedSkipsTheUninstall(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	patchSpec(t, hr, suspend)
	start := time.Now()
	require.NoError(t, cl.Delete(t.Context(), hr))
	gone(t, hr)
	require.Less(t, time.Since(start), 5*time.Second)
	etcdCluster(t, ns)
	configMap(t, ns, "demo")
	records := &corev1.SecretList{}
	require.NoError(t, cl.List(t.Context(), records, client.InNamespace(ns), client.MatchingLabels{"owner": "helm"}))
	require.Len(t, records.Items, 1)
}

func TestDeletedReleaseThatIsHeldAndResumedIsUninstalled(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { suspend(hr); hold(hr) })
	require.NoError(t, cl.Delete(t.Context(), hr))
	await(t, hr, "lose helm-controller's finalizer at once", func(hr *fluxv2.HelmRelease) bool {
		return len(hr.Finalizers) == 1 && hr.Finalizers[0] == foreignFinalizer
	})
	ec := etcdCluster(t, ns)
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Suspend = false })
	gone(t, ec)
	await(t, hr, "have no history left", func(hr *fluxv2.HelmRelease) bool { return len(hr.Status.History) == 0 })
	unhold(t, hr)
	gone(t, hr)
}

func TestEditOfTheApplicationDropsSuspensionAnnotationsAndForeignFinalizers(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, map[string]any{"replicas": 1})
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) {
		suspend(hr)
		hold(hr)
		hr.Annotations = map[string]string{"cozy-etcd.io/x": "ours", "apps.cozystack.io-note": "the application's"}
	})
	require.NoError(t, helmcontroller.EditApplication(t.Context(), cl, ns, "demo", helmcontroller.AppEdit{}, func(values map[string]any) { values["replicas"] = 3 }))
	await(t, hr, "be upgraded", func(hr *fluxv2.HelmRelease) bool { return ready(hr) && hr.Status.History[0].Version == 2 })
	require.False(t, hr.Spec.Suspend)
	require.Equal(t, []string{fluxv2.Finalizer}, hr.Finalizers)
	require.Equal(t, map[string]string{"apps.cozystack.io-note": "the application's"}, hr.Annotations)
	require.Equal(t, int32(3), *etcdCluster(t, ns).Spec.Replicas)
}

func TestNewerApplicationAPICarriesTheSuspensionOver(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { suspend(hr); hold(hr) })
	require.NoError(t, helmcontroller.EditApplication(t.Context(), cl, ns, "demo", helmcontroller.AppEdit{KeepSuspend: true}, func(map[string]any) {}))
	await(t, hr, "have its own finalizer back", func(hr *fluxv2.HelmRelease) bool { return len(hr.Finalizers) == 1 })
	require.True(t, hr.Spec.Suspend)
	require.Equal(t, []string{fluxv2.Finalizer}, hr.Finalizers)
}

func TestForcedReconcileBringsADeletedObjectBackDespiteTheSuspension(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	patchSpec(t, hr, suspend)
	require.NoError(t, cl.Delete(t.Context(), etcdCluster(t, ns)))
	require.NoError(t, flux.ForceReconcile(t.Context(), ns, "demo"))
	require.NoError(t, cl.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "demo"}, &etcdv1alpha2.EtcdCluster{}))
}

func TestForceAnnotationUpgradesOnce(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) {
		hr.Annotations = map[string]string{fluxv2.AnnotationReconcile: "token", fluxv2.AnnotationForce: "token"}
	})
	await(t, hr, "be upgraded", func(hr *fluxv2.HelmRelease) bool { return ready(hr) && hr.Status.History[0].Version == 2 })
	require.Equal(t, "token", hr.Status.LastHandledForceAt)
	never(t, 1500*time.Millisecond, func() bool {
		require.NoError(t, cl.Get(t.Context(), client.ObjectKeyFromObject(hr), hr))
		return hr.Status.History[0].Version > 2
	})
}
