package restorejob

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

// installFence applies the admission policy and its binding as the chart renders them.
func installFence(ctx context.Context, c client.Client, chart string) error {
	loaded, err := loader.Load(chart)
	if err != nil {
		return err
	}
	values, err := chartutil.ToRenderValues(loaded, nil, chartutil.ReleaseOptions{Name: "etcd-controller", Namespace: ownNamespace}, nil)
	if err != nil {
		return err
	}
	files, err := engine.Render(loaded, values)
	if err != nil {
		return err
	}
	for name, content := range files {
		if !strings.HasPrefix(path.Base(name), "validatingadmissionpolicy") {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(content), &u.Object); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := c.Create(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// lease of the application; nil where there is none.
func (g *rig) lease() *coordinationv1.Lease {
	g.t.Helper()
	o := &coordinationv1.Lease{}
	if err := g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: lock.Name("etcd")}, o); err != nil {
		require.NoError(g.t, client.IgnoreNotFound(err))
		return nil
	}
	return o
}

// holder names who has the lock; empty: nobody.
func (g *rig) holder() string {
	g.t.Helper()
	if o := g.lease(); o != nil && lock.HolderOf(o) != nil {
		return lock.HolderOf(o).Name
	}
	return ""
}

// createEmpty tries what Flux or a tenant would do; it is a dry run, so that nothing comes of it.
func (g *rig) createEmpty() error {
	return g.admin.Create(g.t.Context(), chartCluster(g.ns, true), client.DryRunAll)
}

func (g *rig) requireFenced(stands bool) {
	g.t.Helper()
	err := g.createEmpty()
	require.Equal(g.t, stands, refusedByFence(err), "%v", err)
	require.Equal(g.t, stands, g.lease().Labels[lock.LabelFence] == lock.LabelFenceValue)
}

func TestTheFenceStandsFromBeforeTheDeletionToTheEnd(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.fail = func(name string, o client.Object) error {
		switch name {
		case "delete EtcdCluster":
			require.True(t, refusedByFence(g.createEmpty()), "at the deletion")
		case "create EtcdCluster":
			err := g.createEmpty()
			require.True(t, refusedByFence(err), "before the recreation")
			require.ErrorContains(t, err, `RestoreJob "again" of namespace `+g.ns)
			require.ErrorContains(t, err, "kubectl -n "+g.ns+" delete lease etcd-lock.cozy-etcd.io")
			other := o.DeepCopyObject().(*unstructured.Unstructured)
			require.NoError(t, unstructured.SetNestedField(other.Object, "p/x.db", "spec", "bootstrap", "restore", "source", "s3", "key"))
			require.True(t, refusedByFence(g.admin.Create(t.Context(), other, client.DryRunAll)), "nor from another source")
			other = chartCluster(g.ns, true)
			other.SetName("other")
			require.NoError(t, g.admin.Create(t.Context(), other, client.DryRunAll), "another cluster is nobody's business")
		}
		return nil
	}
	job := g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Whole") != "" })
	require.Equal(t, "True/Fenced", condition(job, "Fenced"))
	require.Equal(t, "again", g.holder())
	job = g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	g.requireFenced(false)
	require.Empty(t, g.holder())
	require.Equal(t, "1001000", g.lease().Annotations[lock.AnnotationHighWater])
	require.Empty(t, g.lease().OwnerReferences)
}

// A restore that ends without a cluster leaves the fence, and the next one takes it over.
func TestTheFenceStaysWhereNoClusterIs(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.ops.off = true
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Whole") != "" })
	g.ops.off, g.ops.bootstrapFails = false, true
	job := g.finish("again")
	require.Equal(t, badPhase, job.Status.Phase)
	require.Contains(t, job.Status.Message, "kubectl -n "+g.ns+" delete lease etcd-lock.cozy-etcd.io")
	require.NoError(t, g.admin.Delete(t.Context(), g.cluster()))
	g.await(func() bool { return g.cluster() == nil })
	g.requireFenced(true)
	require.Empty(t, g.holder())

	g.ops.bootstrapFails = false
	g.create(newJob("then"))
	job = g.finish("then")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	g.requireFenced(false)
	start, _, _ := unstructured.NestedString(g.cluster().Object, "spec", "bootstrap", "restore", "source", "s3", "key")
	require.Contains(t, start, string(job.UID))
}

func TestAnAbortedRestoreTakesItsFenceDown(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool {
		l := g.lease()
		return l != nil && l.Labels[lock.LabelFence] != ""
	})
	require.NoError(t, g.admin.Delete(t.Context(), g.job("again")))
	g.finish("again")
	g.requireFenced(false)
	require.Empty(t, g.holder())
	require.Nil(t, g.suspended())
	require.False(t, has(g.cluster(), "spec", "bootstrap"))
}

// Somebody deletes the Lease or edits it: before the deletion the restore stops until it has it again, after it it sets the fence up again first.
func TestTheLeaseIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	taken := 0
	g.fail = func(name string, _ client.Object) error {
		switch name {
		case "create ConfigMap", "create EtcdCluster":
			if taken++; taken <= 2 {
				require.NoError(t, g.admin.Delete(t.Context(), g.lease()))
				return fmt.Errorf("fault %d", taken)
			}
		}
		return nil
	}
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.GreaterOrEqual(t, taken, 3)
	require.Equal(t, 3, count(g.writes, "create Lease"), "%q", g.writes)
	require.Empty(t, g.holder())
}

// A BackupJob that runs is waited for; it is not pre-empted.
func TestC33ARestoreWaitsForTheBackupThatHoldsTheLock(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	backup := &backupsv1alpha1.BackupJob{Spec: backupsv1alpha1.BackupJobSpec{ApplicationRef: etcdRef(), BackupClassName: "x"}}
	backup.Name = "nightly"
	g.create(backup)
	locks := g.reconciler().Locks
	l, err := locks.Get(t.Context(), g.ns, "etcd")
	require.NoError(t, err)
	l.Take(lock.BackupClaim(backup))
	require.NoError(t, locks.Save(t.Context(), l))
	job := g.when("again", backupsv1alpha1.ReasonWaitingForLock)
	require.Equal(t, backupsv1alpha1.RestoreJobPending, job.Status.Phase)
	require.Nil(t, job.Status.StartedAt)
	require.Contains(t, job.Status.Message, `BackupJob "nightly" holds the lock`)

	g.late = 25 * time.Hour
	g.create(newJob("too-late"))
	require.Equal(t, "True/QueueLimitExceeded", condition(g.finish("too-late"), "Stalled"))
	g.late = 0
	require.NoError(t, g.admin.Delete(t.Context(), backup))
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}

// The revision that restores have reached outlives their records.
func TestTheHighWaterMarkIsPassed(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]int64{"5000000": 6000000, "not a number": 1001000, "9223372036854775807": 1001000} {
		g := newRig(t)
		g.tenant("again")
		lease := &coordinationv1.Lease{}
		lease.Name, lease.Annotations = lock.Name("etcd"), map[string]string{lock.AnnotationHighWater: annotation}
		g.create(lease)
		require.Equal(t, okPhase, g.finish("again").Status.Phase)
		require.Equal(t, fmt.Sprint(want), g.lease().Annotations[lock.AnnotationHighWater], annotation)
	}
}

// Where the policy is not there, the API server takes an empty cluster; only with the option the deletion goes on, and the status says so.
func TestAMissingFenceNeedsTheOption(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.uncovered("again")
	before := g.cluster()
	g.fail = func(name string, o client.Object) error {
		if u, ok := o.(*unstructured.Unstructured); ok && name == "dry-run EtcdCluster" && !has(u, "spec", "bootstrap") {
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "etcdclusters"}, "etcd")
		}
		return nil
	}
	g.when("again", backupsv1alpha1.ReasonFencing)
	g.late = fenceGrace + time.Second
	job := g.when("again", backupsv1alpha1.ReasonFenceMissing)
	require.Equal(t, "False/FenceMissing", condition(job, "Fenced"))
	require.Contains(t, job.Status.Message, "--allow-missing-fence")
	require.NotContains(t, g.writes, "delete EtcdCluster")
	require.Equal(t, before.GetUID(), g.cluster().GetUID())

	g.missingFence = true
	job = g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Deleted") == "True/FormerClusterGone" })
	require.Equal(t, "False/FenceMissing", condition(job, "Fenced"))
	require.Contains(t, messageOf(job, "Fenced"), "nobody may edit the application")
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
	require.Equal(t, "False/FenceLifted", condition(g.job("again"), "Fenced"))
}
