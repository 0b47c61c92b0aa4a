package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// A release that is deleted while the restore holds it suspended loses Flux's finalizer at once, and is uninstalled all the same.
func TestC60AReleaseDeletedDuringARestoreIsUninstalled(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant, _ := backedUp(t, "uninstalled")
	claim := holdAClaim(t, tenant)
	_, err := tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	awaitCondition(t, tenant, "r1", backupsv1alpha1.ConditionDeleted, backupsv1alpha1.ReasonWaitingForDeletion)
	require.Eventually(t, func() bool { _, err := tenant.Cluster(ctx); return apierrors.IsNotFound(err) }, time.Minute, 20*time.Millisecond)

	helm := func() int {
		records := &corev1.SecretList{}
		require.NoError(t, platform.Client.List(ctx, records, client.InNamespace(tenant.Namespace), client.MatchingLabels{"owner": "helm"}))
		return len(records.Items)
	}
	require.Positive(t, helm())
	hr := &fluxv2.HelmRelease{}
	require.NoError(t, platform.Client.Get(ctx, key(tenant.Namespace, harness.ReleaseName), hr))
	require.True(t, hr.Spec.Suspend)
	require.NoError(t, platform.Client.Delete(ctx, hr))
	require.Eventually(t, func() bool { return apierrors.IsNotFound(platform.Client.Get(ctx, client.ObjectKeyFromObject(hr), hr)) }, time.Minute, 20*time.Millisecond)
	require.Zero(t, helm(), "Helm's records went with the release, by an uninstall")
	release(t, claim)
	awaitCondition(t, tenant, "r1", backupsv1alpha1.ConditionStalled, backupsv1alpha1.ReasonAborted)
	_, err = tenant.Cluster(ctx)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}
