package helmcontroller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
)

func remediation(strategy string, retries int) option {
	return func(hr *fluxv2.HelmRelease) {
		hr.Spec.Upgrade.Remediation = &fluxv2.UpgradeRemediation{Strategy: strategy, Retries: retries}
	}
}

// failUpgrade asks for three replicas and lets the next n upgrades fail after their writes.
func failUpgrade(t *testing.T, hr *fluxv2.HelmRelease, n int) {
	t.Helper()
	flux.FailNext(hr.Namespace, hr.Name, "upgrade", helmcontroller.AfterWrites, n)
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"replicas": 3}) })
}

func stalled(hr *fluxv2.HelmRelease) bool {
	return condition(hr, fluxv2.ConditionStalled) == metav1.ConditionTrue
}

func TestFailedUpgradeWithoutRetriesStallsAndLeavesItsWrites(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method)
		failUpgrade(t, hr, 1)
		await(t, hr, "stall", stalled)
		require.Equal(t, metav1.ConditionFalse, condition(hr, fluxv2.ConditionReady))
		require.Equal(t, "failed", hr.Status.History[0].Status)
		require.Equal(t, int64(1), hr.Status.UpgradeFailures)
		require.Equal(t, hr.Generation, hr.Status.ObservedGeneration)
		require.Equal(t, int32(3), *etcdCluster(t, ns).Spec.Replicas)
		change(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"replicas": 5}) })
		require.True(t, ready(hr), "a new generation is tried afresh")
		require.Zero(t, hr.Status.Failures)
	})
}

func TestFailedUpgradeRollsBackAndRetries(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method, remediation("rollback", 1))
		failUpgrade(t, hr, 1)
		await(t, hr, "be upgraded in the end", func(hr *fluxv2.HelmRelease) bool { return ready(hr) && hr.Status.History[0].Version == 4 })
		require.Equal(t, int32(3), *etcdCluster(t, ns).Spec.Replicas) // 1 install, 2 failed, 3 rollback, 4 upgrade
	})
}

func TestRollbackAfterTheLastFailureRestoresTheOldManifest(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method, remediation("rollback", 1))
		failUpgrade(t, hr, 2)
		await(t, hr, "stall", stalled)
		require.Equal(t, metav1.ConditionTrue, condition(hr, fluxv2.ConditionRemediated))
		require.Equal(t, metav1.ConditionFalse, condition(hr, fluxv2.ConditionReady))
		require.Equal(t, int32(1), *etcdCluster(t, ns).Spec.Replicas)
	})
}

func TestUninstallRemediationDeletesTheClusterAndInstallsAnew(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil, remediation("uninstall", 1))
	was := etcdCluster(t, ns).UID
	failUpgrade(t, hr, 1)
	await(t, hr, "be installed anew", func(hr *fluxv2.HelmRelease) bool {
		return ready(hr) && hr.Status.LastAttemptedReleaseAction == "install"
	})
	require.NotEqual(t, was, etcdCluster(t, ns).UID, "such a release loses its data, which is why a restore refuses it")
}

func TestRetryOnFailureTriesAgainWithoutRemediation(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	strategy := func(hr *fluxv2.HelmRelease) {
		hr.Spec.Upgrade.Strategy = &fluxv2.ActionStrategy{Name: fluxv2.StrategyRetryOnFailure, RetryInterval: &metav1.Duration{Duration: 500 * time.Millisecond}}
		remediation("uninstall", -1)(hr) // has no effect under this strategy
	}
	hr := install(t, ns, nil, strategy)
	was := etcdCluster(t, ns).UID
	failUpgrade(t, hr, 2)
	await(t, hr, "be upgraded in the end", func(hr *fluxv2.HelmRelease) bool { return ready(hr) && hr.Status.History[0].Version == 4 })
	require.Equal(t, was, etcdCluster(t, ns).UID)
}

func TestFailedInstallIsUninstalledAndRetried(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	flux.FailNext(ns, "demo", "install", helmcontroller.AfterWrites, 1)
	hr := install(t, ns, nil, func(hr *fluxv2.HelmRelease) { hr.Spec.Install.Remediation = &fluxv2.Remediation{Retries: 1} })
	require.Equal(t, 1, hr.Status.History[0].Version)
}

func TestRefusedObjectIsReported(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method)
		patchSpec(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"bad": true}) })
		await(t, hr, "stall", stalled)
		require.Contains(t, readyMessage(hr), "spec.storage.size")
	})
}

func readyMessage(hr *fluxv2.HelmRelease) string {
	for _, c := range hr.Status.Conditions {
		if c.Type == fluxv2.ConditionReady {
			return c.Message
		}
	}
	return ""
}

func TestForceReplacesClientSideOnlyAndIsRefusedWhereAFieldMustStay(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method, func(hr *fluxv2.HelmRelease) { hr.Spec.Upgrade.Force = true })
		restored(t, ns)
		change(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"replicas": 3}) })
		if *hr.Spec.Install.ServerSideApply {
			require.True(t, ready(hr))
		} else {
			require.False(t, ready(hr), "a replacement would take spec.bootstrap away")
		}
		require.NotNil(t, etcdCluster(t, ns).Spec.Bootstrap)
	})
}

// restored re-creates the cluster as a restore does: with a bootstrap that the chart does not render, and with the old ownership of the other fields.
func restored(t *testing.T, ns string) {
	t.Helper()
	old := etcdCluster(t, ns)
	require.NoError(t, cl.Delete(t.Context(), old.DeepCopy()))
	ec := &etcdv1alpha2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo", Labels: old.Labels, Annotations: old.Annotations}, Spec: old.Spec}
	ec.Spec.Bootstrap = &etcdv1alpha2.BootstrapSpec{Restore: &etcdv1alpha2.RestoreSpec{Source: etcdv1alpha2.SnapshotLocation{
		S3: &etcdv1alpha2.S3Location{Endpoint: "https://s3.test", Bucket: "b", Key: "k.db", CredentialsSecretRef: corev1.LocalObjectReference{Name: "c"}},
	}}}
	require.NoError(t, cl.Create(t.Context(), ec, client.FieldOwner("cozy-etcd")))
}

func TestUpgradeAfterARestoreKeepsBootstrap(t *testing.T) {
	eachMethod(t, func(t *testing.T, ns string, method option) {
		hr := install(t, ns, nil, method)
		restored(t, ns)
		change(t, hr, func(hr *fluxv2.HelmRelease) { hr.Spec.Values = raw(t, map[string]any{"replicas": 3}) })
		require.True(t, ready(hr))
		require.NotNil(t, etcdCluster(t, ns).Spec.Bootstrap)
		require.Equal(t, int32(3), *etcdCluster(t, ns).Spec.Replicas)
	})
}

func TestInterruptedActionIsUnlocked(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	hr := install(t, ns, nil)
	records := storage.Init(driver.NewSecrets(clients.CoreV1().Secrets(ns)))
	patchSpec(t, hr, suspend) // so that nobody writes records meanwhile
	last, err := records.Last("demo")
	require.NoError(t, err)
	last.SetStatus(release.StatusPendingUpgrade, "as a killed controller leaves it")
	require.NoError(t, records.Update(last))
	patchSpec(t, hr, func(hr *fluxv2.HelmRelease) {
		hr.Spec.Suspend, hr.Spec.Values = false, raw(t, map[string]any{"replicas": 3})
	})
	await(t, hr, "be upgraded", func(hr *fluxv2.HelmRelease) bool { return ready(hr) && *etcdCluster(t, ns).Spec.Replicas == 3 })
}
