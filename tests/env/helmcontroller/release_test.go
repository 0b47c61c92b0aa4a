package helmcontroller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
)

func configMap(t *testing.T, ns, name string) *corev1.ConfigMap {
	t.Helper()
	m := &corev1.ConfigMap{}
	require.NoError(t, cl.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: name}, m))
	return m
}

func etcdCluster(t *testing.T, ns string) *etcdv1alpha2.EtcdCluster {
	t.Helper()
	c := &etcdv1alpha2.EtcdCluster{}
	require.NoError(t, cl.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "demo"}, c))
	return c
}

func gone(t *testing.T, obj client.Object) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(cl.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	}, 30*time.Second, 50*time.Millisecond, "%T %s should be gone", obj, obj.GetName())
}

func managers(obj client.Object) map[string]metav1.ManagedFieldsOperationType {
	m := map[string]metav1.ManagedFieldsOperationType{}
	for _, f := range obj.GetManagedFields() {
		m[f.Manager] = f.Operation
	}
	return m
}

func TestInstallIsRecordedAndOwnedByHelmController(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		start := time.Now()
		hr := install(t, ns, nil, method)
		require.Less(t, time.Since(start), 5*time.Second)
		require.Equal(t, []string{fluxv2.Finalizer}, hr.Finalizers)
		require.Equal(t, hr.Generation, hr.Status.LastAttemptedGeneration)
		require.Equal(t, "install", hr.Status.LastAttemptedReleaseAction)
		require.Len(t, hr.Status.History, 1)
		require.Equal(t, "deployed", hr.Status.History[0].Status)
		m := configMap(t, ns, "demo")
		require.Equal(t, "one", m.Data["a"])
		require.Equal(t, "demo", m.Labels[fluxv2.LabelName])
		require.Equal(t, "demo", m.Annotations["meta.helm.sh/release-name"])
		operation := metav1.ManagedFieldsOperationUpdate
		if *hr.Spec.Install.ServerSideApply {
			operation = metav1.ManagedFieldsOperationApply
		}
		require.Equal(t, operation, managers(m)[helmcontroller.FieldManager])
	})
}

func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	before := configMap(t, ns, "demo").ResourceVersion
	never(t, 3*time.Second, func() bool { // three intervals
		require.NoError(t, cl.Get(t.Context(), client.ObjectKeyFromObject(hr), hr))
		return hr.Status.History[0].Version > 1
	})
	require.Equal(t, before, configMap(t, ns, "demo").ResourceVersion)
}

// never looks from the test's own goroutine, so that a look may fail the test.
func never(t *testing.T, d time.Duration, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		require.False(t, cond(), "within %s", d)
	}
}

func TestUpgradeAppliesChangedValuesAndRemovesFieldsAndObjects(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, map[string]any{"data": map[string]any{"b": "two"}, "extra": true, "deadline": 60}, method)
		require.Equal(t, int32(60), *etcdCluster(t, ns).Spec.ProgressDeadlineSeconds)
		extra := configMap(t, ns, "demo-extra")

		change(t, hr, func(hr *fluxv2.HelmRelease) {
			hr.Spec.Values = raw(t, map[string]any{"data": map[string]any{"a": "changed", "b": nil}, "replicas": 3})
		})
		require.True(t, ready(hr))
		require.Equal(t, 2, hr.Status.History[0].Version)
		require.Equal(t, "superseded", hr.Status.History[1].Status)
		require.Equal(t, map[string]string{"a": "changed"}, configMap(t, ns, "demo").Data)
		ec := etcdCluster(t, ns)
		require.Equal(t, int32(3), *ec.Spec.Replicas)
		require.NotEqual(t, int32(60), *ec.Spec.ProgressDeadlineSeconds, "a value that is gone takes its field along and leaves the CRD's default")
		gone(t, extra)
	})
}

func TestUpgradeKeepsFieldsOfOthersAndServerSideTakesItsOwnBack(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, map[string]any{"data": map[string]any{"a": "one"}}, method)
		m := configMap(t, ns, "demo")
		m.Data["a"], m.Data["theirs"] = "edited", "kept"
		require.NoError(t, cl.Update(t.Context(), m))
		ec := etcdCluster(t, ns)
		ec.Spec.Replicas = new(int32)
		require.NoError(t, cl.Update(t.Context(), ec))

		change(t, hr, func(hr *fluxv2.HelmRelease) {
			hr.Spec.Values = raw(t, map[string]any{"data": map[string]any{"a": "one", "c": "x"}})
		})
		require.Equal(t, map[string]string{"a": "one", "c": "x", "theirs": "kept"}, configMap(t, ns, "demo").Data)
		if *hr.Spec.Install.ServerSideApply {
			require.Equal(t, int32(1), *etcdCluster(t, ns).Spec.Replicas)
		} else {
			require.Equal(t, int32(0), *etcdCluster(t, ns).Spec.Replicas, "Helm 3 compares only old and new manifest of a custom resource")
		}
	})
}

func TestClientSideReleaseMovesToServerSideWithItsFields(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	clientSide := false
	hr := install(t, ns, map[string]any{"deadline": 60}, func(hr *fluxv2.HelmRelease) { hr.Spec.Install.ServerSideApply = &clientSide })
	change(t, hr, func(hr *fluxv2.HelmRelease) {
		hr.Spec.Upgrade.ServerSideApply = "enabled"
		hr.Spec.Values = raw(t, map[string]any{"replicas": 1})
	})
	require.True(t, ready(hr))
	require.NotEqual(t, int32(60), *etcdCluster(t, ns).Spec.ProgressDeadlineSeconds)
	require.Equal(t, metav1.ManagedFieldsOperationApply, managers(etcdCluster(t, ns))[helmcontroller.FieldManager])
}

func TestDeletedObjectComesBackOnlyWithAnUpgradeOrDriftDetection(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method)
		require.NoError(t, cl.Delete(t.Context(), etcdCluster(t, ns)))
		never(t, 2500*time.Millisecond, func() bool {
			return cl.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "demo"}, &etcdv1alpha2.EtcdCluster{}) == nil
		})
		require.NoError(t, flux.ForceReconcile(t.Context(), ns, "demo"))
		require.NoError(t, cl.Delete(t.Context(), etcdCluster(t, ns)))
		change(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.DriftDetection = &fluxv2.DriftDetection{Mode: "enabled"} })
		etcdCluster(t, ns)
		version := hr.Status.History[0].Version
		m := configMap(t, ns, "demo")
		m.Data["a"] = "drifted"
		require.NoError(t, cl.Update(t.Context(), m))
		require.Eventually(t, func() bool { return configMap(t, ns, "demo").Data["a"] == "one" }, 10*time.Second, 100*time.Millisecond)
		require.NoError(t, cl.Get(t.Context(), client.ObjectKeyFromObject(hr), hr))
		require.Equal(t, version, hr.Status.History[0].Version, "drift is put right without a new release")
	})
}

func TestUninstallFollowsDeletionOfTheRelease(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method)
		m := configMap(t, ns, "demo")
		require.NoError(t, cl.Delete(t.Context(), hr))
		gone(t, hr)
		gone(t, m)
		secrets := &corev1.SecretList{}
		require.NoError(t, cl.List(context.Background(), secrets, client.InNamespace(ns), client.MatchingLabels{"owner": "helm"}))
		require.Empty(t, secrets.Items)
	})
}
