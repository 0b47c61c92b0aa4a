package restorejob

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// options sets spec.options of a job that nobody has looked at yet.
func (g *rig) options(job string, options map[string]any) {
	g.t.Helper()
	raw, err := json.Marshal(options)
	require.NoError(g.t, err)
	j := g.job(job)
	j.Spec.Options = &runtime.RawExtension{Raw: raw}
	require.NoError(g.t, g.admin.Update(g.t.Context(), j))
}

// uncovered is a tenant whose job asks for no safety copy.
func (g *rig) uncovered(job string) {
	g.t.Helper()
	g.tenant(job)
	g.options(job, map[string]any{"restoreTimeoutSeconds": 900, "safetySnapshot": false})
}

func (g *rig) snapshots() []etcdv1alpha2.EtcdSnapshot {
	list := &etcdv1alpha2.EtcdSnapshotList{}
	require.NoError(g.t, g.admin.List(g.t.Context(), list, client.InNamespace(g.ns)))
	return list.Items
}

func (g *rig) backup(name string) *backupsv1alpha1.Backup {
	b := &backupsv1alpha1.Backup{}
	if err := g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: name}, b); err != nil {
		require.NoError(g.t, client.IgnoreNotFound(err))
		return nil
	}
	return b
}

// left are the keys of the prepared copies that are still stored.
func (g *rig) left() []string {
	var keys []string
	g.stored.Range(func(key, _ any) bool { keys = append(keys, key.(string)); return true })
	slices.Sort(keys)
	return keys
}

func TestSafetyCopyIsABackupThatCanBeRestored(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	suspended := slices.Index(g.writes, "patch HelmRelease")
	for _, first := range []string{"create EtcdSnapshot", "create Backup"} {
		require.Equal(t, 1, count(g.writes, first))
		require.Less(t, slices.Index(g.writes, first), suspended, "%q", g.writes)
	}
	snapshot := g.snapshots()[0]
	require.True(t, metav1.IsControlledBy(&snapshot, job))
	require.Equal(t, "p/", snapshot.Spec.Destination.S3.Key, "beside the Backup that is restored")

	b := g.backup("again")
	require.Empty(t, b.OwnerReferences)
	require.Equal(t, backupsv1alpha1.BackupReady, b.Status.Phase)
	require.Equal(t, "s3", b.Spec.StrategyRef.Name)
	require.Equal(t, etcdRef(), b.Spec.ApplicationRef)
	require.Equal(t, "s3://b/p/"+snapshot.Name+".db", b.Status.Artifact.URI)
	require.Equal(t, string(before.GetUID()), b.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterUID])
	require.Contains(t, b.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterSpec], `"quotaBackendBytes"`)
	require.Empty(t, g.left(), "neither prepared copy is needed any more")

	next := newJob("back")
	next.Spec.BackupRef.Name = "again"
	g.create(next)
	require.Equal(t, okPhase, g.finish("back").Status.Phase)
	require.NotNil(t, g.backup("back"))
}

// A job may have the name of the Backup that it restores.
func TestSafetyBackupNeverTakesAnothersName(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("good")
	job := g.finish("good")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, newBackup().Spec.DriverMetadata, g.backup("good").Spec.DriverMetadata)
	require.NotNil(t, g.backup(g.snapshots()[0].Name))
	require.Contains(t, messageOf(job, "SafetyCopied"), g.snapshots()[0].Name)
}

// The safety copy's revision is past everything that the restored cluster can have served.
func TestSafetyCopyIsFarAheadOfTheMainCopy(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	rec := g.records()[0]
	require.EqualValues(t, 1_000+1_000_000, rec.Prepared.Revision)
	require.Equal(t, rec.Prepared.Revision+rollbackDistance, rec.Safety.Prepared.Revision)
	require.Len(t, g.left(), 2, "both are there before anything is deleted")
	require.Equal(t, rec.Prepared.Revision, rec.Highest(), "no cluster was to start from the safety copy yet")
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}

func TestPlanSafetyKeepsItsDistance(t *testing.T) {
	rec := &record.Record{Prepared: &record.Prepared{Revision: 2000}, Safety: &record.Safety{
		Source: record.Source{Key: "p/s.db"}, Proof: &record.Proof{Revision: 1500}, Prepared: &record.Prepared{Key: "x", Bump: rollbackDistance, Revision: rollbackDistance + 1500},
	}}
	rec.Job.UID = "u"
	planSafety(rec)
	require.Equal(t, "x", rec.Safety.Prepared.Key, "far enough")
	rec.Prepared.Revision = rollbackDistance
	planSafety(rec)
	require.Equal(t, &record.Prepared{Key: "p/s.prepared-u.db", Bump: 2*rollbackDistance - 1500}, rec.Safety.Prepared, "planned anew, so it is made anew")
	planSafety(&record.Record{})
}

func TestRestoreWithoutAnyWayBack(t *testing.T) {
	ill := func(g *rig) {
		list := &etcdv1alpha2.EtcdMemberList{}
		require.NoError(g.t, g.admin.List(g.t.Context(), list, client.InNamespace(g.ns)))
		for i := range list.Items[:2] {
			list.Items[i].Status.Conditions[0].Status = metav1.ConditionFalse
			require.NoError(g.t, g.admin.Status().Update(g.t.Context(), &list.Items[i]))
		}
		g.ops.off = true
		g.late = quorumGrace
		g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Deleted") != "" })
		g.ops.off, g.late = false, 0
	}
	for name, c := range map[string]struct {
		start  func(g *rig)
		reason string
		event  bool
	}{
		"no quorum": {func(g *rig) {
			g.tenant("again")
			job := g.job("again")
			job.Status.StartedAt = &metav1.Time{Time: time.Now().Add(-quorumGrace)}
			job.Status.Phase = backupsv1alpha1.RestoreJobRunning
			require.NoError(g.t, g.admin.Status().Update(g.t.Context(), job))
			ill(g)
		}, backupsv1alpha1.ReasonSafetySnapshotSkipped, true},
		"off":        {func(g *rig) { g.uncovered("again") }, backupsv1alpha1.ReasonSafetySnapshotOff, false},
		"no cluster": {func(g *rig) { g.create(newBackup(), newJob("again")); g.deployed() }, backupsv1alpha1.ReasonSafetySnapshotSkipped, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			c.start(g)
			job := g.finish("again")
			require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
			require.Equal(t, "False/"+c.reason, condition(job, "SafetyCopied"))
			require.Equal(t, c.event, strings.Contains(g.told(), c.reason))
			require.Empty(t, g.snapshots())
			require.Nil(t, g.backup("again"))
		})
	}
}

// A weakness of a moment is waited out.
func TestSafetySnapshotAwaitsTheQuorum(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	list := &etcdv1alpha2.EtcdMemberList{}
	require.NoError(t, g.admin.List(t.Context(), list, client.InNamespace(g.ns)))
	for i := range list.Items[:2] {
		meta.FindStatusCondition(list.Items[i].Status.Conditions, "Ready").Status = metav1.ConditionFalse
		require.NoError(t, g.admin.Status().Update(t.Context(), &list.Items[i]))
	}
	g.ops.off = true
	job := g.when("again", backupsv1alpha1.ReasonWaitingForQuorum)
	require.Contains(t, job.Status.Message, "1 of 3 voters are ready, 2 are needed")
	g.ops.off = false
	require.Equal(t, "True/SafetySnapshotStored", condition(g.finish("again"), "SafetyCopied"))
}

func TestSafetySnapshotFailureTouchesNothing(t *testing.T) {
	refuse := func(verb string) func(g *rig) {
		return func(g *rig) {
			g.fail = func(name string, o client.Object) error {
				if name != verb {
					return nil
				}
				return apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, o.GetName(), nil)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil  func(g *rig)
		says   string
		backup bool
	}{
		"the operator reports failure": {func(g *rig) {
			g.ops.snapshot = func() etcdv1alpha2.EtcdSnapshotPhase { return etcdv1alpha2.SnapshotFailed }
		}, "has failed", false},
		"the snapshot is refused": {refuse("create EtcdSnapshot"), "refuses the EtcdSnapshot", false},
		"the Backup is refused":   {refuse("create Backup"), "refuses the Backup", false},
		"it is not what was stored": {func(g *rig) {
			g.artifacts = func(verb string) error {
				if verb == "prove" && g.backup("again") != nil {
					return etcdBroken()
				}
				return nil
			}
		}, "is damaged", true},
		"it cannot be prepared": {func(g *rig) {
			g.artifacts = func(verb string) error {
				if verb == "prepare" && g.backup("again") != nil {
					return etcdBroken()
				}
				return nil
			}
		}, "is damaged", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.tenant("again")
			before := g.cluster()
			c.spoil(g)
			job := g.finish("again")
			require.Equal(t, "True/"+backupsv1alpha1.ReasonSafetySnapshotFailed, condition(job, "Stalled"))
			require.Contains(t, job.Status.Message, c.says)
			require.Contains(t, job.Status.Message, "spec.options.safetySnapshot")
			require.Equal(t, c.backup, g.backup("again") != nil)
			require.Empty(t, g.left())
			g.untouched(before)
		})
	}
}

func TestSafetySnapshotThatHangsEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	g.ops.snapshot = func() etcdv1alpha2.EtcdSnapshotPhase { return etcdv1alpha2.SnapshotStarted }
	g.when("again", backupsv1alpha1.ReasonSnapshotRunning)
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool { return len(g.snapshots()) == 1 })
	g.late = time.Hour
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDeadlineExceeded, condition(job, "Stalled"))
	g.await(func() bool { return len(g.snapshots()) == 0 })
	g.untouched(before)
}

// A job that is deleted while its snapshot runs takes it along, and nothing else.
func TestC26DeletedDuringTheSafetySnapshot(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	g.ops.snapshot = func() etcdv1alpha2.EtcdSnapshotPhase { return etcdv1alpha2.SnapshotStarted }
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool { return len(g.snapshots()) == 1 })
	require.NoError(t, g.admin.Delete(t.Context(), g.job("again")))
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
	g.await(func() bool { return len(g.snapshots()) == 0 })
	g.untouched(before)
	require.Nil(t, g.backup("again"))
}

func TestForeignSnapshotIsNotTaken(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	g.ops.snapshot = func() etcdv1alpha2.EtcdSnapshotPhase { return etcdv1alpha2.SnapshotStarted }
	made := false
	g.fail = func(name string, o client.Object) error {
		if name == "create EtcdSnapshot" && !made {
			made = true
			foreign := o.DeepCopyObject().(*etcdv1alpha2.EtcdSnapshot)
			foreign.OwnerReferences = nil
			return g.admin.Create(t.Context(), foreign)
		}
		return nil
	}
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonSafetySnapshotFailed, condition(job, "Stalled"))
	require.Len(t, g.snapshots(), 1, "somebody else's is left alone")
	g.untouched(before)
}

func etcdBroken() error {
	return fault.Terminalf(backupsv1alpha1.ReasonArtifactBroken, "the database is damaged at byte 9")
}

// startsFromSafety tells that the cluster starts from the safety copy.
func (g *rig) startsFromSafety() bool {
	u := g.cluster()
	return u != nil && strings.Contains(clusterFacts(u, "").StartsFrom, "p/again-")
}

// seedFails lets the first member fail for good: always, or only where the cluster starts from the Backup.
func (g *rig) seedFails(always bool) {
	g.ops.seedFails = func() bool {
		u := g.cluster()
		return u != nil && has(u, "spec", "bootstrap") && (always || !g.startsFromSafety())
	}
}

func TestRollbackOfASeedThatFails(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.seedFails(false)
	job := g.finish("again")
	require.Equal(t, badPhase, job.Status.Phase)
	require.Equal(t, map[string]string{"Ready": "False/RolledBack", "Stalled": "True/RolledBack", "RolledBack": "True/RolledBack", "SafetyCopied": "True/SafetySnapshotStored", "Reported": "True/Reported", "Fenced": "False/FenceLifted",
		"Captured": "True/Captured", "Deleted": "True/FormerClusterGone", "Suspended": "False/Resumed", "Serving": "False/RolledBack", "Whole": "False/RolledBack"}, conditions(job))
	for _, text := range []string{"gave up on the first member", `Backup "good"`, `Backup "again"`} {
		require.Contains(t, job.Status.Message, text)
	}
	require.True(t, g.startsFromSafety())
	require.Nil(t, g.suspended())
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	require.Empty(t, g.records())
	require.Empty(t, g.left())
	require.Equal(t, 2, count(g.writes, "delete EtcdCluster"))
	require.Equal(t, 2, count(g.writes, "create EtcdCluster"))
	require.Equal(t, "Helm", g.cluster().GetLabels()["app.kubernetes.io/managed-by"])
	for _, leaf := range ownFields(t, g.cluster()) {
		require.Regexp(t, `^/f:spec/f:bootstrap/|^/f:metadata/f:annotations/f:cozy-etcd.io/restored-by$`, leaf)
	}
}

// It has a deadline of its own, as the first one has passed.
func TestRollbackOfAClusterWithoutQuorum(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool {
		g.ops.off = g.ours() && !g.startsFromSafety()
		return g.ops.off && condition(j, "Whole") != ""
	})
	g.late = time.Hour
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "RolledBack") != "" })
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool { return g.startsFromSafety() })
	g.ops.off = false
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonRolledBack, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "no quorum formed within")
	require.Nil(t, g.suspended())
}

func (g *rig) ours() bool { u := g.cluster(); return u != nil && has(u, "spec", "bootstrap") }

func TestRollbackOfWrongData(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.answers = func(_ string, s etcd.Status) (etcd.Status, error) {
		if s.Revision < rollbackDistance {
			s.Revision = 899
		}
		return s, nil
	}
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonRolledBack, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "it is at revision 899")
	require.Equal(t, "True/RolledBack", condition(job, "RolledBack"))
	require.Nil(t, g.suspended())
}

func TestRollbackThatFailsToo(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.seedFails(true)
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonRollbackFailed, condition(job, "Stalled"))
	for _, text := range []string{`Backup "good"`, `Backup "again"`, "create a new RestoreJob", `HelmRelease "etcd" stays suspended`} {
		require.Contains(t, job.Status.Message, text)
	}
	require.Equal(t, true, g.suspended())
	require.Equal(t, []string{"tests/helm", backupsv1alpha1.UninstallFinalizer}, g.helmRelease().GetFinalizers())
	require.Len(t, g.records(), 1)
	require.True(t, g.startsFromSafety(), "nothing empty comes up")
	require.Len(t, g.left(), 1, "the seed may still read the copy")

	g.ops.seedFails, g.ops.bootstrapFails = nil, false
	require.NoError(t, g.admin.Delete(t.Context(), g.cluster()))
	g.await(func() bool { return g.cluster() == nil })
	next := newJob("then")
	next.Spec.BackupRef.Name = "again"
	g.create(next)
	job = g.finish("then")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Empty(t, g.records())
	require.Empty(t, g.left())
	require.Nil(t, g.suspended())
}

// What deletes the release, the namespace or the job in the middle of a rollback meets the same rules as after the first deletion.
func TestRollbackMeetsDeletions(t *testing.T) {
	for name, c := range map[string]struct {
		remove func(g *rig) error
		reason string
	}{
		"the job":     {func(g *rig) error { return g.admin.Delete(g.t.Context(), g.job("again")) }, ""},
		"the release": {func(g *rig) error { return g.admin.Delete(g.t.Context(), g.helmRelease()) }, backupsv1alpha1.ReasonAborted},
		"the namespace": {func(g *rig) error {
			return g.admin.Delete(g.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.ns}})
		}, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.tenant("again")
			g.seedFails(false)
			g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "RolledBack") != "" })
			g.ops.off = c.reason == "gone" // no operator makes anything in a namespace that goes
			require.NoError(t, c.remove(g))
			switch c.reason {
			case "":
				g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
				require.True(t, g.startsFromSafety())
				require.NotEmpty(t, clusterFacts(g.cluster(), "").ClusterID)
				require.Nil(t, g.suspended())
			case backupsv1alpha1.ReasonAborted:
				require.Equal(t, "True/"+c.reason, condition(g.finish("again"), "Stalled"))
				require.False(t, g.startsFromSafety(), "nothing is brought back")
				require.Nil(t, g.suspended())
			default:
				g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
				require.False(t, g.startsFromSafety(), "nothing is brought back")
				require.Nil(t, g.suspended())
			}
			g.patchRelease(`{"metadata":{"finalizers":null}}`)
		})
	}
}

// TestC62KilledAfterEachWriteOfARollback lets the controller die after each of its writes from the first recreation on.
func TestC62KilledAfterEachWriteOfARollback(t *testing.T) {
	t.Parallel()
	rolls := func(g *rig) string {
		g.small("again")
		g.seedFails(false)
		require.Equal(g.t, "True/RolledBack", condition(g.finish("again"), "RolledBack"))
		return g.canonical("again")
	}
	undisturbed := newRig(t)
	want := rolls(undisturbed)
	for _, n := range killPoints(t, slices.Index(undisturbed.writes, "create EtcdCluster"), len(undisturbed.writes)) {
		t.Run(fmt.Sprintf("%02d %s", n+1, undisturbed.writes[n]), func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.killAt = n + 1
			require.JSONEq(t, want, rolls(g))
			for _, twice := range []string{"delete EtcdCluster", "create EtcdCluster"} {
				require.Equal(t, 2, count(g.writes, twice), "%q", g.writes)
			}
		})
	}
}
