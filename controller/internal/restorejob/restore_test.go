package restorejob

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func TestRestoreInPlace(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	job := g.finish("again")
	t.Logf("writes: %q", g.writes)

	require.Equal(t, backupsv1alpha1.RestoreJobSucceeded, job.Status.Phase, "%+v", job.Status)
	require.Equal(t, map[string]string{"Ready": "True/Succeeded", "SafetyCopied": "True/SafetySnapshotStored", "Captured": "True/Captured", "Deleted": "True/FormerClusterGone", "Suspended": "False/Resumed",
		"Fenced": "False/FenceLifted", "Reported": "True/Reported", "Serving": "True/RestoredRevisionServed", "Whole": "True/AllMembersAgree"}, conditions(job))
	require.NotNil(t, job.Status.StartedAt)
	require.NotNil(t, job.Status.CompletedAt)
	require.Contains(t, job.Status.Message, "all 3 members")
	require.Empty(t, job.Finalizers)
	require.Empty(t, g.records())

	after := g.cluster()
	require.NotEqual(t, before.GetUID(), after.GetUID())
	s3, _, err := unstructured.NestedMap(after.Object, "spec", "bootstrap", "restore", "source", "s3")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"endpoint": "http://s3:9000", "bucket": "b", "key": "p/x.prepared-" + string(job.UID) + ".db", "region": "r", "forcePathStyle": true,
		"credentialsSecretRef": map[string]any{"name": "creds"}}, s3)
	require.True(t, sameCapture(withoutBootstrap(after), captureOf(before)), "everything else is as it was")
	hr := g.helmRelease()
	require.Equal(t, []string{"tests/helm"}, hr.GetFinalizers())
	require.Empty(t, hr.GetAnnotations())
	_, set, _ := unstructured.NestedBool(hr.Object, "spec", "suspend")
	require.False(t, set, "the field is absent again")
}

func TestRestoreWithoutFlux(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.create(newBackup(), newJob("again"))
	require.NoError(t, g.admin.Create(t.Context(), chartCluster(g.ns, true)))
	g.ops.up()
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, "False/"+backupsv1alpha1.ReasonNoHelmRelease, condition(job, "Suspended"))
}

// The release may have another name than the application: Flux's labels on the cluster tell.
func TestReleaseIsFoundByItsLabels(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	other := newRelease()
	other.Name = "tenant-etcd"
	g.create(other, newRelease(), newBackup(), newJob("again"))
	u := chartCluster(g.ns, true)
	labels := u.GetLabels()
	labels[fluxv2.LabelName] = "tenant-etcd"
	u.SetLabels(labels)
	g.apply(u)
	g.ops.up()
	job := g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Deleted") != "" })
	require.Contains(t, messageOf(job, "Suspended"), `"tenant-etcd"`)
	require.Nil(t, g.suspended(), "the one that is merely called etcd is left alone")
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}

// Two controllers, as after a lost Lease: they get in each other's way and still do everything once.
func TestC61TwoControllersAtOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	stop := make(chan struct{})
	var second sync.WaitGroup
	second.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = g.once("again")
			}
		}
	})
	job := g.finish("again")
	close(stop)
	second.Wait()
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	for _, once := range []string{"create EtcdCluster", "delete EtcdCluster"} {
		require.Equal(t, 1, count(g.writes, once), "%q", g.writes)
	}
	require.Equal(t, 2, count(g.writes, "create ConfigMap"), "record and report: %q", g.writes)
	require.Empty(t, g.records())
	require.Nil(t, g.suspended())
}

func conditions(job *backupsv1alpha1.RestoreJob) map[string]string {
	all := map[string]string{}
	for _, c := range job.Status.Conditions {
		all[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return all
}

func withoutBootstrap(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "spec", "bootstrap")
	return u
}
