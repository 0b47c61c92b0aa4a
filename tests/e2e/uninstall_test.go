package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
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

// requireUninstalls deletes the release and waits until nothing runs or is stored for it any more. What stays, stays without a finalizer of ours.
func requireUninstalls(t *testing.T, tenant *harness.Tenant) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, tenant.Uninstall(ctx))
	var last []string
	require.Eventually(t, func() bool {
		var left []string
		for _, list := range []client.ObjectList{
			&fluxv2.HelmReleaseList{}, &etcdv1alpha2.EtcdClusterList{}, &etcdv1alpha2.EtcdMemberList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{},
			&policyv1.PodDisruptionBudgetList{}, &cmapi.CertificateList{}, &cmapi.IssuerList{},
		} {
			require.NoError(t, platform.Client.List(ctx, list, client.InNamespace(tenant.Namespace)))
			if n := meta.LenList(list); n > 0 {
				left = append(left, fmt.Sprintf("%T of %d", list, n))
			}
		}
		pods := &corev1.PodList{}
		require.NoError(t, platform.Client.List(ctx, pods, client.InNamespace(tenant.Namespace)))
		for i := range pods.Items { // Pods of snapshots that are done stay as long as their jobs, which are no part of the release
			if p := &pods.Items[i]; p.Status.Phase != corev1.PodSucceeded {
				left = append(left, "Pod "+p.Name)
			}
		}
		if err := platform.Client.Get(ctx, client.ObjectKey{Name: tenant.Namespace}, &kamajiv1alpha1.DataStore{}); !apierrors.IsNotFound(err) {
			left = append(left, fmt.Sprintf("the DataStore: %v", err))
		}
		last = left
		return len(left) == 0
	}, time.Minute, 100*time.Millisecond, "left: %v", &last)
	require.Empty(t, finalizersOfOurs(t, tenant.Namespace))
}

// finalizersOfOurs looks at every kind that the API server lists.
func finalizersOfOurs(t *testing.T, namespace string) []string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(platform.Config)
	require.NoError(t, err)
	kinds, err := clients.Discovery().ServerPreferredNamespacedResources()
	require.NoError(t, err)
	var found []string
	looked := 0
	for _, group := range kinds {
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(schema.FromAPIVersionAndKind(group.GroupVersion, kind.Kind+"List"))
			require.NoError(t, platform.Client.List(t.Context(), list, client.InNamespace(namespace)), kind.Kind)
			looked += len(list.Items)
			for i := range list.Items {
				for _, f := range list.Items[i].Finalizers {
					if strings.HasPrefix(f, "cozy-etcd.io/") {
						found = append(found, kind.Kind+" "+list.Items[i].Name+": "+f)
					}
				}
			}
		}
	}
	require.Positive(t, looked)
	return found
}
