package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// artifacts is a tenant with one good Backup, which each case spoils in its own way.
type artifacts struct {
	t      *testing.T
	tenant *harness.Tenant
	key    string
	good   []byte
	runs   int
}

func artifactsOf(t *testing.T, tenant *harness.Tenant) *artifacts {
	t.Helper()
	a := &artifacts{t: t, tenant: tenant}
	a.key, _ = platform.S3.Key(a.backup().Status.Artifact.URI)
	var err error
	a.good, err = platform.S3.Get(t.Context(), a.key)
	require.NoError(t, err)
	return a
}

func (a *artifacts) get(name string, o client.Object) {
	a.t.Helper()
	require.NoError(a.t, platform.Client.Get(a.t.Context(), types.NamespacedName{Namespace: a.tenant.Namespace, Name: name}, o))
}

func (a *artifacts) patch(o client.Object, format string, args ...any) {
	a.t.Helper()
	require.NoError(a.t, platform.Client.Patch(a.t.Context(), o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))))
}

func (a *artifacts) put(content []byte) {
	a.t.Helper()
	require.NoError(a.t, platform.S3.Put(a.t.Context(), a.key, content, nil))
}

func (a *artifacts) backup() *backupsv1alpha1.Backup {
	b := &backupsv1alpha1.Backup{}
	a.get("b1", b)
	return b
}

func (a *artifacts) secret() *corev1.Secret {
	s := &corev1.Secret{}
	a.get("etcd-backup-credentials", s)
	return s
}

func (a *artifacts) cluster() *etcdv1alpha2.EtcdCluster {
	c := &etcdv1alpha2.EtcdCluster{}
	a.get(harness.ReleaseName, c)
	return c
}

// state is what a refused restore must leave exactly as it was: the live cluster, and whatever we make or mark. Besides the job it leaves its finalizer on
// nothing, and the lock free; the lock's Lease itself is there since the first job of the application.
func (a *artifacts) state() string {
	a.t.Helper()
	cluster, release := a.cluster(), &fluxv2.HelmRelease{}
	a.get(harness.ReleaseName, release)
	revisions, err := a.tenant.Revisions(a.t.Context())
	require.NoError(a.t, err)
	records := &corev1.ConfigMapList{}
	require.NoError(a.t, platform.Client.List(a.t.Context(), records, client.InNamespace(harness.SystemNamespace), client.MatchingLabels{"cozy-etcd.io/namespace": a.tenant.Namespace}))
	return fmt.Sprintf("cluster %s generation %d finalizers %v annotations %v, release generation %d finalizers %v annotations %v, revisions %v, %d records, %s", cluster.UID,
		cluster.Generation, cluster.Finalizers, cluster.Annotations, release.Generation, release.Finalizers, release.Annotations, revisions, len(records.Items), a.ours())
}

// ours are the objects of the kinds that a restore makes or marks, with the marks.
func (a *artifacts) ours() string {
	a.t.Helper()
	var found []string
	for _, list := range []client.ObjectList{
		&etcdv1alpha2.EtcdSnapshotList{}, &backupsv1alpha1.BackupList{}, &corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &coordinationv1.LeaseList{},
	} {
		require.NoError(a.t, platform.Client.List(a.t.Context(), list, client.InNamespace(a.tenant.Namespace)))
		require.NoError(a.t, meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			// The report of a restore that fails after its proof is a part of the job, too long for its status, and goes with it.
			if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "RestoreJob" && o.GetName() == owner.Name+"-report" {
				return nil
			}
			text := fmt.Sprintf("%T %s finalizers %v", o, o.GetName(), o.GetFinalizers())
			if lease, ok := o.(*coordinationv1.Lease); ok {
				// The name of a BackupJob that has ended stays on the lock until the next one takes it.
				held := strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), "RestoreJob/")
				text += fmt.Sprintf(" held by a restore: %v, labels %v", held, lease.Labels)
			}
			found = append(found, text)
			return nil
		}))
	}
	return strings.Join(found, ", ")
}

// refused runs a restore to its end.
func (a *artifacts) refused(reason string, says ...string) {
	a.t.Helper()
	before := a.state()
	a.runs++
	name := fmt.Sprintf("r%d", a.runs)
	_, err := a.tenant.Restore(a.t.Context(), name, "b1", nil)
	require.NoError(a.t, err)
	job, err := a.tenant.AwaitRestore(a.t.Context(), name, time.Minute)
	require.Error(a.t, err, "it must be refused")
	ready := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady)
	require.NotNil(a.t, ready, "%+v", job.Status)
	require.Equal(a.t, reason, ready.Reason, ready.Message)
	for _, s := range says {
		require.Contains(a.t, ready.Message, s)
	}
	require.Nil(a.t, meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionDeleted))
	require.Contains(a.t, before, "held by a restore: false")
	require.NotContains(a.t, before, "cozy-etcd.io/fence", "and nothing is fenced")
	require.Eventually(a.t, func() bool { return a.state() == before }, 20*time.Second, 100*time.Millisecond, "before: %s\nafter: %s", before, a.state())
	stored, err := platform.S3.List(a.t.Context(), "example/"+a.tenant.Namespace+"/")
	require.NoError(a.t, err)
	for _, key := range stored {
		require.Equal(a.t, a.key, key, "nothing of ours stays in the bucket")
	}
}

// C29: a Backup whose object cannot be restored never costs the live cluster anything.
func TestBadArtifactsLeaveTheClusterAlone(t *testing.T) {
	ctx := t.Context()
	controller := startController(t)
	tenant := newTenant(t, "bad-artifacts", time.Hour, harness.Quick(1))
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/registry", "good", 200))
	backUp(t, tenant, "b1")
	a := artifactsOf(t, tenant)

	a.spoiledRuns(t, a.cases(a.backup().Status.Artifact))
	misfit := of35(t)
	misfit.spoiledRuns(t, operatorCannot())
	t.Run("no room in the scratch folder", func(t *testing.T) {
		a.t = t
		controller.Stop(10 * time.Second)
		controller = startController(t, "--scratch-limit=1Mi")
		a.refused(backupsv1alpha1.ReasonScratchTooSmall, "the limit is 1048576")
		controller.Stop(10 * time.Second)
	})
	startController(t, "--operator-restore-minors=3.5,3.6")
	t.Run("an operator that can restore 3.5", func(t *testing.T) {
		platform.Operator.SetMode(etcdoperator.Later)
		defer platform.Operator.SetMode(etcdoperator.V054)
		misfit.t = t
		misfit.restored(t)
	})
	misfit.withAuthOn(t)
	misfit.spoiledRuns(t, misfit.misfitCases(a.good))
}

type spoiled struct {
	name, reason string
	says         []string
	spoil, mend  func()
}

func (a *artifacts) cases(recorded *backupsv1alpha1.BackupArtifact) []spoiled {
	restore := func() { a.put(a.good) }
	cases := []spoiled{
		{"missing", backupsv1alpha1.ReasonObjectNotFound, []string{a.key}, func() { require.NoError(a.t, platform.S3.Delete(a.t.Context(), a.key)) }, restore},
		{"a bit of a value", backupsv1alpha1.ReasonArtifactChecksumMismatch, []string{recorded.Checksum[len("sha256:"):]}, func() { a.put(a.flipped()) }, restore},
		{"wrong checksum recorded", backupsv1alpha1.ReasonArtifactChecksumMismatch, []string{"0000000000"}, func() {
			a.patch(a.backup(), `{"status":{"artifact":{"checksum":"sha256:%064d"}}}`, 0)
		}, func() { a.patch(a.backup(), `{"status":{"artifact":{"checksum":%q}}}`, recorded.Checksum) }},
		{"a bit of a value, and no checksum recorded", backupsv1alpha1.ReasonArtifactHashMismatch, []string{fmt.Sprintf("at byte %d", len(a.good)-32)}, func() {
			a.put(a.flipped())
			a.patch(a.backup(), `{"status":{"artifact":{"checksum":null}}}`)
		}, func() {
			restore()
			a.patch(a.backup(), `{"status":{"artifact":{"checksum":%q}}}`, recorded.Checksum)
		}},
		{"credentials wrong", backupsv1alpha1.ReasonCredentialsRejected, []string{`Secret "etcd-backup-credentials"`}, func() { a.patch(a.secret(), `{"stringData":{"AWS_SECRET_ACCESS_KEY":"wrong"}}`) },
			func() {
				a.patch(a.secret(), `{"stringData":{"AWS_SECRET_ACCESS_KEY":%q}}`, platform.S3.SecretKey)
			}},
		{"credentials without a key", backupsv1alpha1.ReasonCredentialsSecretInvalid, []string{"AWS_ACCESS_KEY_ID"}, func() { a.patch(a.secret(), `{"stringData":{"AWS_ACCESS_KEY_ID":""}}`) },
			func() { a.patch(a.secret(), `{"stringData":{"AWS_ACCESS_KEY_ID":%q}}`, platform.S3.AccessKey) }},
		{"larger than the quota", backupsv1alpha1.ReasonQuotaTooSmall, []string{"the quota is 8192"}, func() { a.patch(a.cluster(), `{"spec":{"options":{"quotaBackendBytes":8192}}}`) },
			func() { a.patch(a.cluster(), `{"spec":{"options":{"quotaBackendBytes":2147483648}}}`) }},
	}
	for _, at := range []int{1, 512, 8192} {
		cases = append(cases, spoiled{fmt.Sprintf("cut at %d bytes", at), backupsv1alpha1.ReasonArtifactTruncated, []string{fmt.Sprintf("at byte %d of %d", at, len(a.good))},
			func() { a.put(a.good[:at]) }, restore})
	}
	for _, less := range []int{1, 512, 8192} {
		left := len(a.good) - less
		cases = append(cases, spoiled{fmt.Sprintf("%d bytes short", less), backupsv1alpha1.ReasonArtifactTruncated, []string{fmt.Sprintf("at byte %d of %d", left, len(a.good))},
			func() { a.put(a.good[:left]) }, restore})
	}
	return append(cases, a.elsewhere(recorded.URI))
}

// flipped has one bit of a value changed.
func (a *artifacts) flipped() []byte {
	bad := bytes.Clone(a.good)
	at := bytes.Index(bad, []byte("good-00100"))
	require.Positive(a.t, at, "the value is in the snapshot")
	bad[at] ^= 1
	return bad
}
