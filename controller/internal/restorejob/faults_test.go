package restorejob

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// when runs a job until its Ready condition has a reason.
func (g *rig) when(name, reason string) *backupsv1alpha1.RestoreJob {
	g.t.Helper()
	return g.run(name, func(j *backupsv1alpha1.RestoreJob) bool { return strings.HasSuffix(condition(j, "Ready"), "/"+reason) })
}

func (g *rig) suspended() any {
	value, _, _ := unstructured.NestedFieldNoCopy(g.helmRelease().Object, "spec", "suspend")
	return value
}

func (g *rig) patchCluster(patch string) {
	g.t.Helper()
	require.NoError(g.t, g.admin.Patch(g.t.Context(), g.cluster(), client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func (g *rig) patchRelease(patch string) {
	g.t.Helper()
	require.NoError(g.t, g.admin.Patch(g.t.Context(), g.helmRelease(), client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// untouched asserts that a failed restore left everything as it was.
func (g *rig) untouched(before *unstructured.Unstructured) {
	g.t.Helper()
	after := g.cluster()
	require.Equal(g.t, before.GetUID(), after.GetUID())
	require.Equal(g.t, before.GetGeneration(), after.GetGeneration())
	require.Nil(g.t, after.GetDeletionTimestamp())
	if hr := g.helmRelease(); hr != nil {
		require.Equal(g.t, []string{"tests/helm"}, hr.GetFinalizers())
		require.Empty(g.t, hr.GetAnnotations())
	}
	require.Empty(g.t, g.records())
}

func TestRefusalsTouchNothing(t *testing.T) {
	for _, c := range []struct {
		name, reason, message string
		change                func(g *rig)
	}{
		{"parked", backupsv1alpha1.ReasonClusterParked, "spec.replicas is 0", func(g *rig) { g.patchCluster(`{"spec":{"replicas":0}}`) }},
		{"another minor", backupsv1alpha1.ReasonVersionUnsupported, "spec.version is 3.5.21", func(g *rig) { g.patchCluster(`{"spec":{"version":"3.5.21"}}`) }},
		{"C57b forced upgrades", backupsv1alpha1.ReasonReleaseUnsafe, "spec.upgrade.force", func(g *rig) { g.patchRelease(`{"spec":{"upgrade":{"force":true,"serverSideApply":"disabled"}}}`) }},
		{"C57d remediation", backupsv1alpha1.ReasonReleaseUnsafe, "spec.upgrade.remediation", func(g *rig) {
			g.patchRelease(`{"spec":{"upgrade":{"remediation":{"retries":2,"strategy":"uninstall"}}}}`)
		}},
		{"release of another namespace", backupsv1alpha1.ReasonReleaseUnsafe, "flux-system/tenants", func(g *rig) {
			g.patchCluster(`{"metadata":{"labels":{"helm.toolkit.fluxcd.io/name":"tenants","helm.toolkit.fluxcd.io/namespace":"flux-system"}}}`)
		}},
		{"C26 the recreated object would be refused", backupsv1alpha1.ReasonRecreateRefused, "would not take the recreated EtcdCluster", func(g *rig) { g.source.Bucket = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.tenant("again")
			c.change(g)
			before := g.cluster()
			generation := g.helmRelease().GetGeneration()
			job := g.finish("again")
			require.Equal(t, badPhase, job.Status.Phase)
			require.Equal(t, "False/"+c.reason, condition(job, "Ready"))
			require.Equal(t, "True/"+c.reason, condition(job, "Stalled"))
			require.Contains(t, job.Status.Message, c.message)
			require.NotNil(t, job.Status.CompletedAt)
			g.untouched(before)
			require.Equal(t, generation, g.helmRelease().GetGeneration(), "the release was not even paused")
		})
	}
}

// References are free text. One that cannot be a name ends its own job at once, and hinders no other.
func TestAReferenceThatCannotBeANameIsRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	for i, name := range []string{"", "a/b", "..", "%"} {
		job := newJob(fmt.Sprintf("odd-%d", i))
		job.Spec.BackupRef.Name = name
		g.create(job)
		_, err := g.once("again")
		require.NoError(t, err, name)
		job = g.finish(job.Name)
		require.Equal(t, badPhase, job.Status.Phase, name)
		require.Equal(t, "False/"+backupsv1alpha1.ReasonBackupNotFound, condition(job, "Ready"), name)
	}
}

func TestRefusesWhatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	require.NoError(t, g.admin.Delete(t.Context(), g.cluster()))
	job := g.finish("again")
	require.Equal(t, "False/"+backupsv1alpha1.ReasonClusterDeleting, condition(job, "Ready"))
	require.Contains(t, job.Status.Message, "tests/hold")
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
}

func TestC26AnAdministratorsSuspensionIsNeverLifted(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchRelease(`{"spec":{"suspend":true}}`)
	job := g.run("again", func(j *backupsv1alpha1.RestoreJob) bool {
		return condition(j, "Suspended") != "" && condition(j, "Deleted") != ""
	})
	require.Equal(t, "True/"+backupsv1alpha1.ReasonSuspendedBefore, condition(job, "Suspended"))
	require.Contains(t, g.helmRelease().GetFinalizers(), backupsv1alpha1.RestoreFinalizer)
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
	require.Equal(t, true, g.suspended())
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
}

// An explicit false is put back as such, and an edit that rewrites the whole release in the middle of the restore does not let it run.
func TestC26SuspensionIsPutBackExactlyAndHeldMeanwhile(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchRelease(`{"spec":{"suspend":false}}`)
	g.ops.off = true
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Whole") != "" })
	g.patchRelease(`{"metadata":{"finalizers":["tests/helm"],"annotations":null},"spec":{"suspend":null}}`)
	g.await(func() bool { _, _ = g.once("again"); return g.suspended() == true })
	g.ops.off = false
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
	require.Equal(t, false, g.suspended())
}

func TestC26ErrorsAtEachStep(t *testing.T) {
	refuse := func(verb string) func(g *rig) {
		return func(g *rig) {
			g.fail = func(name string, o client.Object) error {
				if name != verb {
					return nil
				}
				return apierrors.NewInvalid(schema.GroupKind{Kind: "EtcdCluster"}, o.GetName(), nil)
			}
		}
	}
	for _, c := range []struct {
		name, reason string
		kept, failed bool // the cluster is untouched; the step never succeeds
		change       func(g *rig)
	}{
		{"the dry run refuses", backupsv1alpha1.ReasonRecreateRefused, true, true, refuse("dry-run EtcdCluster")},
		{"the suspension is refused", backupsv1alpha1.ReasonReleaseUnsafe, true, true, refuse("patch HelmRelease")},
		{"the deletion is refused", backupsv1alpha1.ReasonDeleting, true, true, refuse("delete EtcdCluster")},
		{"the creation is refused after all", backupsv1alpha1.ReasonRecreateRefused, false, true, refuse("create EtcdCluster")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.tenant("again")
			before := g.cluster()
			c.change(g)
			if c.name == "the suspension is refused" {
				once := g.fail
				g.fail = func(name string, o client.Object) error {
					if len(g.records()) == 1 && g.records()[0].Outcome != nil {
						return nil
					}
					return once(name, o)
				}
			}
			job := g.finish("again")
			require.Equal(t, badPhase, job.Status.Phase)
			require.Equal(t, "True/"+c.reason, condition(job, "Stalled"))
			if c.kept {
				require.Nil(t, g.suspended(), "the release goes back to work")
				g.untouched(before)
				return
			}
			require.Nil(t, g.cluster())
			require.Equal(t, true, g.suspended(), "an empty cluster must not come up")
			require.Equal(t, []string{"tests/helm", backupsv1alpha1.UninstallFinalizer}, g.helmRelease().GetFinalizers(), "and when it is deleted, it is uninstalled first")
			require.Contains(t, job.Status.Message, "stays suspended")
			require.Len(t, g.records(), 1, "the spec is kept")
		})
	}
}

func TestC26DeadlineResumes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	down := errors.New("the API server is away")
	g.fail = func(name string, _ client.Object) error {
		if name == "patch HelmRelease" && g.late == 0 {
			return down
		}
		return nil
	}
	job := g.when("again", backupsv1alpha1.ReasonRetrying)
	require.Contains(t, job.Status.Message, "the API server is away")
	require.Equal(t, backupsv1alpha1.RestoreJobRunning, job.Status.Phase)
	g.late = time.Hour
	job = g.finish("again")
	require.Equal(t, "False/"+backupsv1alpha1.ReasonDeadlineExceeded, condition(job, "Ready"))
	g.untouched(before)
}

func TestC26DeletedBeforeTheDeletionAborts(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	g.fail = func(name string, _ client.Object) error {
		if name == "update ConfigMap" && g.suspended() == true && g.job("again").DeletionTimestamp == nil {
			require.NoError(g.t, g.admin.Delete(g.t.Context(), g.job("again")))
			return errors.New("no answer")
		}
		return nil
	}
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
	require.Nil(t, g.suspended())
	g.untouched(before)
}

func TestC26DeletedAfterTheDeletionRunsToItsEnd(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	before := g.cluster()
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	require.NoError(t, g.admin.Delete(t.Context(), g.job("again")))
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
	after := g.cluster()
	require.NotEqual(t, before.GetUID(), after.GetUID())
	require.NotEmpty(t, clusterFacts(after, "").ClusterID)
	require.Nil(t, g.suspended())
	require.Empty(t, g.records())
}

// What is left of Cozystack's driver on a deleted job goes too: nobody else is there to take it away.
func TestStockFinalizersGoWithTheJob(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	job := newJob("again")
	job.Finalizers = []string{backupsv1alpha1.CozystackCleanupFinalizer}
	g.create(job)
	require.Equal(t, badPhase, g.finish("again").Status.Phase, "there is no such Backup")
	require.NotEmpty(t, g.job("again").Finalizers)
	require.NoError(t, g.admin.Delete(t.Context(), g.job("again")))
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
}

func TestC28HungDeletionEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	g.late = time.Hour
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDeadlineExceeded, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "tests/hold")
	require.Equal(t, true, g.suspended())
	require.Len(t, g.records(), 1)

	g.late = 0
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	g.await(func() bool { return g.cluster() == nil })
	g.create(newJob("then"))
	require.Equal(t, okPhase, g.finish("then").Status.Phase)
	require.Nil(t, g.suspended(), "the suspension was the first restore's, so the second lifts it")
	require.Empty(t, g.records(), "both records are gone")
	require.Equal(t, "Helm", g.cluster().GetLabels()["app.kubernetes.io/managed-by"])
	require.True(t, has(g.cluster(), "spec", "options"))
}

func TestC28ForeignClusterIsNotTaken(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.ops.off = true
	created := false
	g.fail = func(name string, _ client.Object) error {
		if name == "create EtcdCluster" && !created {
			created = true
			require.NoError(t, g.admin.Delete(t.Context(), g.lease()), "somebody lifts the fence")
			g.await(func() bool { return g.createEmpty() == nil })
			g.apply(chartCluster(g.ns, true))
		}
		return nil
	}
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonForeignCluster, condition(job, "Stalled"))
	require.False(t, has(g.cluster(), "spec", "bootstrap"))
	require.Equal(t, true, g.suspended(), "no quorum ever formed in it")
}

func TestC33RestoresOfOneApplicationQueue(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("one")
	time.Sleep(1100 * time.Millisecond) // creation times have whole seconds
	g.create(newJob("two"))
	job := g.when("two", backupsv1alpha1.ReasonWaitingForLock)
	require.Equal(t, backupsv1alpha1.RestoreJobPending, job.Status.Phase)
	require.Nil(t, job.Status.StartedAt, "the deadline has not begun")
	require.Contains(t, job.Status.Message, `"one"`)
	require.Equal(t, okPhase, g.finish("one").Status.Phase)
	require.Equal(t, okPhase, g.finish("two").Status.Phase)
}

func TestC35SeedTroubleAndBootstrapFailed(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.uncovered("again")
	g.ops.off = true
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Whole") != "" })
	g.ops.off = false
	g.ops.step()
	pods := &corev1.PodList{}
	require.NoError(t, g.admin.List(t.Context(), pods, client.InNamespace(g.ns)))
	pod := &pods.Items[0]
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "restore", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "NoSuchKey: p/x.db"}}}}
	require.NoError(t, g.admin.Status().Update(t.Context(), pod))
	g.ops.off = true
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool {
		return strings.Contains(j.Status.Message, "container restore: exit code 1 NoSuchKey: p/x.db")
	})

	g.ops.off, g.ops.bootstrapFails = false, true
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonBootstrapFailed, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "NoSuchKey")
	require.Contains(t, job.Status.Message, `HelmRelease "etcd" stays suspended`)
	require.Equal(t, true, g.suspended())
	require.Equal(t, []string{"tests/helm", backupsv1alpha1.UninstallFinalizer}, g.helmRelease().GetFinalizers())
	require.Len(t, g.records(), 1)
	deadline, _ := number(g.cluster().Object, "spec", "progressDeadlineSeconds")
	require.EqualValues(t, 600, deadline)

	g.ops.bootstrapFails = false
	require.NoError(t, g.admin.Delete(t.Context(), g.cluster()))
	g.await(func() bool { return g.cluster() == nil })
	g.create(newJob("then"))
	job = g.finish("then")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Contains(t, messageOf(job, "Captured"), "OlderRecord")
	require.Empty(t, g.records())
	require.Nil(t, g.suspended())
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
}

func messageOf(job *backupsv1alpha1.RestoreJob, kind string) string {
	for _, c := range job.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

func TestC35OneMemberIsNotSuccess(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.ops.members = 1
	job := g.run("again", func(j *backupsv1alpha1.RestoreJob) bool {
		return condition(j, "Serving") == "True/RestoredRevisionServed"
	})
	require.Equal(t, "False/WaitingForMembers", condition(job, "Whole"))
	require.Equal(t, backupsv1alpha1.RestoreJobRunning, job.Status.Phase)
	g.late = time.Hour
	job = g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonIncomplete, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "1 of 3 members are ready")
	require.Nil(t, g.suspended(), "a quorum with the right data is kept, and Flux goes on")
	require.Empty(t, g.records())
}

func TestC35WrongData(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.uncovered("again")
	g.answers = func(_ string, s etcd.Status) (etcd.Status, error) { s.Revision = 899; return s, nil }
	job := g.when("again", backupsv1alpha1.ReasonVerifying)
	require.Contains(t, job.Status.Message, "it is at revision 899, but the restore starts at 1000900")
	require.Empty(t, condition(job, "Serving"))
	g.late = time.Hour
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDataMismatch, condition(g.finish("again"), "Stalled"))
}
