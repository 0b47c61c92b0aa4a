package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

const (
	fencePolicy = "etcd-restore-fence.cozy-etcd.io"
	lockLease   = "etcd-lock.cozy-etcd.io"
	holdGone    = "tests.cozy-etcd.io/hold"
)

func fenced(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+fencePolicy+"'")
}

// backedUp is a tenant of one member with a backup b1, and the cluster as the chart makes it.
func backedUp(t *testing.T, namespace string) (*harness.Tenant, *etcdv1alpha2.EtcdCluster) {
	t.Helper()
	tenant := newTenant(t, namespace, time.Hour, harness.Quick(1))
	backUp(t, tenant, "b1")
	old, err := tenant.Cluster(t.Context())
	require.NoError(t, err)
	return tenant, old
}

// intruders try to bring up an empty cluster in the three ways there are, and keep count.
type intruders struct {
	tenant *harness.Tenant
	empty  *etcdv1alpha2.EtcdCluster

	mu                                sync.Mutex
	created                           int // empty clusters that came to be
	whileGone, fluxWhileGone, rewrite int // refusals while no cluster was there, and edits that took the suspension off
	strange                           []string
}

func (i *intruders) note(to *int) { i.mu.Lock(); *to++; i.mu.Unlock() }

// person creates an empty cluster over and over, for real.
func (i *intruders) person(ctx context.Context) {
	for ctx.Err() == nil {
		_, missing := i.tenant.Cluster(ctx)
		err := i.tenant.Client.Create(ctx, i.empty.DeepCopy())
		switch {
		case err == nil:
			i.note(&i.created)
		case fenced(err) && apierrors.IsForbidden(err):
			if apierrors.IsNotFound(missing) {
				i.note(&i.whileGone)
			}
		case !apierrors.IsAlreadyExists(err) && ctx.Err() == nil:
			i.mu.Lock()
			i.strange = append(i.strange, err.Error())
			i.mu.Unlock()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// edit rewrites the HelmRelease as Cozystack does on a tenant's edit: suspension, mark and finalizer vanish, and Flux begins an upgrade. Another upgrade is forced.
func (i *intruders) edit(ctx context.Context) {
	err := helmcontroller.EditApplication(ctx, i.tenant.Client, i.tenant.Namespace, harness.ReleaseName, helmcontroller.AppEdit{}, func(map[string]any) {})
	if err == nil {
		i.note(&i.rewrite)
	}
	_, missing := i.tenant.Cluster(ctx)
	if err := platform.Flux.ForceReconcile(ctx, i.tenant.Namespace, harness.ReleaseName); fenced(err) && apierrors.IsNotFound(missing) {
		i.note(&i.fluxWhileGone)
	}
}

// While a restore runs, a Flux that upgrades although it is suspended, a tenant's edit that takes the suspension off, and a person try to create the
// EtcdCluster. Each is refused at every step, and the restore ends as it should. A volume claim that does not go keeps the cluster away for a while.
func TestC26NobodyBringsUpAnEmptyClusterDuringARestore(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant, old := backedUp(t, "fenced")
	c, err := tenant.DataStoreClient(ctx)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	want, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.NoError(t, harness.Write(ctx, c, "/later", "bad", 5))
	claim := holdAClaim(t, tenant)

	empty := &etcdv1alpha2.EtcdCluster{Spec: *old.Spec.DeepCopy()}
	empty.Namespace, empty.Name, empty.Labels, empty.Annotations = old.Namespace, old.Name, old.Labels, old.Annotations
	in := &intruders{tenant: tenant, empty: empty}
	hammering, stop := context.WithCancel(ctx)
	var person sync.WaitGroup
	person.Go(func() { in.person(hammering) })
	defer person.Wait()
	defer stop()

	_, err = tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	awaitCondition(t, tenant, "r1", backupsv1alpha1.ConditionDeleted, backupsv1alpha1.ReasonWaitingForDeletion)
	require.Eventually(t, func() bool { _, err := tenant.Cluster(ctx); return apierrors.IsNotFound(err) }, time.Minute, 20*time.Millisecond)
	for range 5 {
		in.edit(ctx)
	}
	release(t, claim)
	require.Eventually(t, func() bool {
		in.edit(ctx)
		now, err := tenant.Cluster(ctx)
		return err == nil && now.UID != old.UID && now.Status.ClusterID != ""
	}, time.Minute, 50*time.Millisecond)
	_, err = tenant.AwaitRestore(ctx, "r1", 2*time.Minute)
	require.NoError(t, err)
	stop()
	person.Wait()

	t.Logf("refused while no cluster was there: %d creations, %d upgrades; %d rewrites of the HelmRelease", in.whileGone, in.fluxWhileGone, in.rewrite)
	require.Zero(t, in.created, "nobody has brought up an empty cluster")
	require.Empty(t, in.strange, "all other refusals are the fence's, or that the cluster is there")
	require.Positive(t, in.whileGone)
	require.Positive(t, in.fluxWhileGone)
	require.Positive(t, in.rewrite)
	restored, err := tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(t, err)
	require.NotNil(t, restored.Spec.Bootstrap)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, want.Diff(got))
	requireFence(t, tenant, false)
	require.Eventually(t, func() bool {
		hr := &fluxv2.HelmRelease{}
		require.NoError(t, platform.Client.Get(ctx, key(tenant.Namespace, harness.ReleaseName), hr))
		return !hr.Spec.Suspend && meta.IsStatusConditionTrue(hr.Status.Conditions, fluxv2.ConditionReady) && len(hr.Finalizers) == 1
	}, time.Minute, 100*time.Millisecond, "Flux is at work again")
}

// holdAClaim keeps one of the cluster's claims from going away with it.
func holdAClaim(t *testing.T, tenant *harness.Tenant) *corev1.PersistentVolumeClaim {
	t.Helper()
	claims := &corev1.PersistentVolumeClaimList{}
	require.NoError(t, platform.Client.List(t.Context(), claims, client.InNamespace(tenant.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: harness.ReleaseName}))
	require.NotEmpty(t, claims.Items)
	claim := &claims.Items[0]
	before := claim.DeepCopy()
	claim.Finalizers = append(claim.Finalizers, holdGone)
	require.NoError(t, platform.Client.Patch(t.Context(), claim, client.MergeFrom(before)))
	return claim
}

func release(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	require.NoError(t, platform.Client.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

func awaitCondition(t *testing.T, tenant *harness.Tenant, job, kind, reason string) {
	t.Helper()
	j := &backupsv1alpha1.RestoreJob{}
	reached := func() bool {
		c := meta.FindStatusCondition(j.Status.Conditions, kind)
		return c != nil && c.Reason == reason
	}
	require.Eventually(t, func() bool {
		err := platform.Client.Get(t.Context(), key(tenant.Namespace, job), j)
		return err == nil && (reached() || j.Status.Phase.Terminal())
	}, time.Minute, 50*time.Millisecond, "%s/%s", kind, reason)
	require.True(t, reached(), "%+v", j.Status)
}

func requireFence(t *testing.T, tenant *harness.Tenant, stands bool) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, platform.Client.Get(t.Context(), key(tenant.Namespace, lockLease), lease))
	require.Equal(t, stands, lease.Labels["cozy-etcd.io/fence"] == "on", "%+v", lease)
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Without a policy that denies nothing is deleted; the restore says what is missing, and goes on once it is there. The binding is not removed: an API server
// (1.37) whose last binding for a kind of parameter was deleted and made again sees no parameter that is newer.
func TestARestoreWaitsForAMissingFence(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant, old := backedUp(t, "unfenced")
	act(t, admissionv1.Audit)
	again := sync.OnceFunc(func() { act(t, admissionv1.Deny) })
	defer again()
	awaitNoFence(t, old)

	_, err := tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	awaitCondition(t, tenant, "r1", backupsv1alpha1.ConditionReady, backupsv1alpha1.ReasonFenceMissing)
	now, err := tenant.Cluster(ctx)
	require.NoError(t, err)
	require.Equal(t, old.UID, now.UID)
	again()
	_, err = tenant.AwaitRestore(ctx, "r1", 2*time.Minute)
	require.NoError(t, err)
}

// act says what the fence does about an empty cluster.
func act(t *testing.T, action admissionv1.ValidationAction) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	require.NoError(t, platform.Client.Get(ctx, client.ObjectKey{Name: fencePolicy}, binding))
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{action}
	require.NoError(t, platform.Client.Update(ctx, binding))
}

// awaitNoFence waits until the API server has taken note, by a fence in a namespace of its own.
func awaitNoFence(t *testing.T, like *etcdv1alpha2.EtcdCluster) {
	t.Helper()
	require.NoError(t, platform.Env.Namespace(t.Context(), "no-fence"))
	require.NoError(t, platform.Client.Create(t.Context(), fenceLease("no-fence", "")))
	empty := &etcdv1alpha2.EtcdCluster{Spec: *like.Spec.DeepCopy()}
	empty.Namespace, empty.Name = "no-fence", like.Name
	require.Eventually(t, func() bool {
		return platform.Client.Create(t.Context(), empty.DeepCopy(), client.DryRunAll) == nil
	}, 30*time.Second, 50*time.Millisecond)
}

// fenceLease is a lock that nobody holds, with the fence that a failed restore left. The release is given as name/UID.
func fenceLease(namespace, release string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: lockLease, Labels: map[string]string{"cozy-etcd.io/lock": "application", "cozy-etcd.io/fence": "on"},
		Annotations: map[string]string{
			"cozy-etcd.io/application": harness.ReleaseName, "cozy-etcd.io/fence-restorejob": "r0", "cozy-etcd.io/fence-source": "s3://b/k",
			"cozy-etcd.io/fence-helmrelease": release,
		},
	}}
}

// A fence that a failed restore left keeps Flux from making an empty cluster, but not the next install after an uninstall.
func TestC60AFreshInstallPassesTheFenceOfAnUninstalledRelease(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant := newTenant(t, "fence-left", time.Hour, harness.Quick(1))
	old, err := tenant.Cluster(ctx)
	require.NoError(t, err)
	hr := &fluxv2.HelmRelease{}
	require.NoError(t, platform.Client.Get(ctx, key(tenant.Namespace, harness.ReleaseName), hr))
	require.NoError(t, platform.Client.Create(ctx, fenceLease(tenant.Namespace, hr.Name+"/"+string(hr.UID))))
	require.NoError(t, platform.Client.Delete(ctx, old))
	require.Eventually(t, func() bool { _, err := tenant.Cluster(ctx); return apierrors.IsNotFound(err) }, time.Minute, 20*time.Millisecond)
	err = platform.Flux.ForceReconcile(ctx, tenant.Namespace, harness.ReleaseName)
	require.True(t, fenced(err), "%v", err)
	requireFence(t, tenant, true)

	require.NoError(t, platform.Client.Delete(ctx, hr))
	require.Eventually(t, func() bool { return eventReason(t, tenant.Namespace, backupsv1alpha1.ReasonFenceLifted) }, time.Minute, 50*time.Millisecond)
	requireFence(t, tenant, false)
	awaitEmpty(t, tenant.Namespace)
	next := &fluxv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: hr.Namespace, Name: hr.Name}, Spec: hr.Spec}
	require.NoError(t, platform.Client.Create(ctx, next))
	_, err = tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(t, err)
}
