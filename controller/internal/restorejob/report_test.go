package restorejob

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
)

// told gives the events so far.
func (g *rig) told() string {
	var all []string
	for {
		select {
		case e := <-g.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func dryJob(name string) *backupsv1alpha1.RestoreJob {
	job := newJob(name)
	job.Spec.Options = &runtime.RawExtension{Raw: []byte(`{"dryRun":true}`)}
	return job
}

// dryTenant is a cluster with a known difference to the snapshot, and a dry run for it.
func (g *rig) dryTenant(job string) {
	g.t.Helper()
	backup := newBackup()
	backup.Spec.TakenAt = metav1.NewTime(time.Now().Add(-time.Hour))
	g.create(newRelease(), backup, dryJob(job))
	g.apply(chartCluster(g.ns, true))
	g.ops.up()
	g.liveKeys = []string{"/registry/pods/a/new1", "/registry/pods/a/new2", "/late/configmaps/x", "/kept/configmaps/x"}
	g.facts = artifact.Facts{
		Keys: artifact.Count{Keys: 7, Bytes: 70}, Roots: map[string]int64{"kept": 3, "dropped": 4},
		Prefixes: map[string]artifact.Count{"/kept/configmaps": {Keys: 3}, "/dropped/secrets": {Keys: 4}},
	}
}

func (g *rig) asBefore(before string) {
	g.t.Helper()
	require.Equal(g.t, before, g.state())
	for _, w := range g.writes {
		if strings.HasSuffix(w, " Lease") {
			continue // the lock of the application, which is given back
		}
		require.Contains(g.t, []string{"patch status RestoreJob", "patch RestoreJob", "create ConfigMap", "update ConfigMap", "delete ConfigMap"}, w)
	}
	g.stored.Range(func(key, _ any) bool { g.t.Fatalf("%s is in the store", key); return false })
	require.Empty(g.t, g.records())
}

// state is what a dry run must leave exactly as it was.
func (g *rig) state() string {
	c, hr := g.cluster(), g.helmRelease()
	return strings.Join([]string{string(c.GetUID()), c.GetResourceVersion(), string(hr.GetUID()), hr.GetResourceVersion()}, " ")
}

func TestDryRunReportsAndTouchesNothing(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.dryTenant("what-if")
	k := g.dataStore()
	schema := func(schema string) func(*kamajiv1alpha1.TenantControlPlane) {
		return func(p *kamajiv1alpha1.TenantControlPlane) { p.Spec.DataStore, p.Spec.DataStoreSchema = g.ns, schema }
	}
	k.plane(g.ns+"-a", "kept", 1, schema("kept"))
	k.plane(g.ns+"-b", "late", 1, schema("late"))
	k.plane(g.ns+"-b", "foreign", 1, refersTo("elsewhere"))
	before := g.state()
	job := g.finish("what-if")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDryRun, condition(job, "Ready"))
	require.Equal(t, "True/"+backupsv1alpha1.ReasonControlPlanesLost, condition(job, "Reported"))
	require.Contains(t, messageOf(job, "Reported"), g.ns+"-b/late")
	require.Empty(t, condition(job, "Deleted"))
	require.Empty(t, condition(job, "ConsumersRestarted"))
	require.Contains(t, g.told(), "Warning "+backupsv1alpha1.ReasonControlPlanesLost)
	g.asBefore(before)

	r, cm := g.report("what-if")
	require.True(t, metav1.IsControlledBy(cm, job))
	require.True(t, r.DryRun)
	require.Equal(t, restorereport.Snapshot{TakenAt: r.Snapshot.TakenAt, EtcdVersion: "3.6", Revision: 900, Keys: 7, Bytes: 70, ObjectBytes: 20512}, r.Snapshot)
	require.WithinDuration(t, time.Now().Add(-time.Hour), r.Snapshot.TakenAt.Time, time.Minute)
	require.Equal(t, int64(1000), r.Live.Revision)
	require.Equal(t, int64(4), r.Live.Keys)
	require.Empty(t, r.Live.Error)
	require.Equal(t, int64(100), *r.RevisionDistance)
	require.Equal(t, &record.Change{Keys: 3, Prefixes: []record.PrefixCount{{Prefix: "/registry/pods", Keys: 2}, {Prefix: "/late/configmaps", Keys: 1}}}, r.Vanish)
	require.Equal(t, restorereport.ControlPlanes{
		DataStores: []string{g.ns}, Affected: restorereport.Names{Count: 2, Names: []string{g.ns + "-a/kept", g.ns + "-b/late"}},
		Lost:     restorereport.Names{Count: 1, Names: []string{g.ns + "-b/late"}},
		Replaced: restorereport.Names{Count: 1, Names: []string{g.ns + "-a/kept"}}, Deleted: restorereport.Names{Count: 1, Names: []string{"dropped"}},
	}, r.ControlPlanes)
	require.Equal(t, restorereport.Fit{
		Fits: true, InUseBytes: 20480, QuotaBytes: 1 << 30, VolumeBytes: 1 << 30, SnapshotVersion: "3.6", ClusterVersion: "3.6.11",
	}, r.Fit)
	require.Zero(t, r.Downtime.Restores)
	require.Contains(t, cm.Data[restorereport.KeyText], "Downtime:  unknown")
	require.NotContains(t, cm.Data[restorereport.KeyJSON]+cm.Data[restorereport.KeyText], "new1", "prefixes only")
}

// A dry run that finds out that the snapshot does not fit fails with the reason, and its report says it, too.
func TestDryRunOfWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.dryTenant("what-if")
	g.proven.InUseBytes = 2 << 30
	before := g.state()
	job := g.finish("what-if")
	require.Equal(t, "False/"+backupsv1alpha1.ReasonQuotaTooSmall, condition(job, "Ready"))
	g.asBefore(before)
	r, _ := g.report("what-if")
	require.Equal(t, backupsv1alpha1.ReasonQuotaTooSmall, r.Fit.Reason)
	require.False(t, r.Fit.Fits)
}

// Nothing live, or a list that breaks off: the report says so, and that is all.
func TestDryRunWithoutALiveAnswer(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.dryTenant("what-if")
	g.answers = func(string, etcd.Status) (etcd.Status, error) { return etcd.Status{}, errors.New("connection refused") }
	job := g.finish("what-if")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDryRun, condition(job, "Ready"))
	r, cm := g.report("what-if")
	require.Contains(t, r.Live.Error, "connection refused")
	require.Nil(t, r.Vanish)
	require.Nil(t, r.RevisionDistance)
	require.Contains(t, cm.Data[restorereport.KeyText], "not compared")

	g.answers, g.listError = nil, etcd.ErrCompacted
	g.create(dryJob("again"))
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
	r, _ = g.report("again")
	require.Contains(t, r.Live.Error, "the list of live keys ended early")
	require.Nil(t, r.Vanish, "half a list compares nothing")
}

// The dry run of a cluster that is gone leaves the record that its spec comes from.
func TestDryRunLeavesAnOlderRecord(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.small("first")
	g.ops.bootstrapFails = true
	g.run("first", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "Deleted") != "" })
	require.Equal(t, badPhase, g.finish("first").Status.Phase)
	require.Len(t, g.records(), 1)
	require.NoError(t, g.admin.Delete(t.Context(), g.cluster()))
	g.create(dryJob("what-if"))
	job := g.finish("what-if")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDryRun, condition(job, "Ready"), job.Status.Message)
	require.Len(t, g.records(), 1, "it is still the last place of the spec")
	r, _ := g.report("what-if")
	require.Equal(t, "there is no live cluster", r.Live.Error)
}

// A real restore reports before it deletes; the next report knows its downtime.
func TestReportOfARestore(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.small("first")
	job := g.finish("first")
	require.Equal(t, okPhase, job.Status.Phase)
	require.Equal(t, "True/"+backupsv1alpha1.ReasonReported, condition(job, "Reported"))
	second := 0
	for i, w := range g.writes {
		if w == "create ConfigMap" {
			second = i
		}
		if w == "delete EtcdCluster" {
			require.Less(t, second, i)
			require.Positive(t, second)
		}
	}
	g.create(dryJob("next"))
	require.Equal(t, okPhase, g.finish("next").Status.Phase)
	r, cm := g.report("next")
	require.Equal(t, 1, r.Downtime.Restores)
	require.Contains(t, cm.Data[restorereport.KeyText], "the last time")
}

func TestReportOfALongName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 253)
	other := long[:252] + "b"
	for _, name := range []string{long, other, strings.Repeat("a.", 126) + "a", "short"} {
		require.LessOrEqual(t, len(reportName(name)), 253)
		require.Regexp(t, `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, reportName(name))
	}
	require.NotEqual(t, reportName(long), reportName(other))
	require.Equal(t, "short-report", reportName("short"))

	g := newRig(t)
	g.dryTenant(long)
	require.Equal(t, okPhase, g.finish(long).Status.Phase)
	r, _ := g.report(long)
	require.Equal(t, long, r.RestoreJob)
}

// Somebody else's ConfigMap of that name stays as it is. It costs a dry run its sense, and a restore nothing but its report.
func TestReportWhereTheNameIsTaken(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.dryTenant("what-if")
	g.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "what-if-report"}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again-report"}})
	before := g.state()
	job := g.finish("what-if")
	require.Equal(t, "False/"+backupsv1alpha1.ReasonReportRefused, condition(job, "Ready"))
	require.Contains(t, job.Status.Message, `"what-if-report"`)
	require.Equal(t, before, g.state())

	g.create(newJob("again"))
	job = g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, "False/"+backupsv1alpha1.ReasonReportRefused, condition(job, "Reported"))
	require.Contains(t, g.told(), "Warning "+backupsv1alpha1.ReasonReportRefused)
	cm := &corev1.ConfigMap{}
	require.NoError(t, g.admin.Get(t.Context(), client.ObjectKey{Namespace: g.ns, Name: "again-report"}, cm))
	require.Empty(t, cm.Data)
}

// What may pass later is tried again.
func TestReportIsWrittenAfterAFault(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.dryTenant("what-if")
	n := 0
	g.fail = func(write string, o client.Object) error {
		if _, report := o.(*corev1.ConfigMap); report && write == "create ConfigMap" && o.GetName() == "what-if-report" {
			if n++; n < 3 {
				return apierrors.NewServerTimeout(schema.GroupResource{Resource: "configmaps"}, "create", 1)
			}
		}
		return nil
	}
	require.Equal(t, okPhase, g.finish("what-if").Status.Phase)
	require.Equal(t, 3, n)
}

// An alarm that came along with the snapshot is lifted once the cluster is whole but for it.
func TestNoSpaceAlarmIsLifted(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.small("again")
	g.answers = func(_ string, s etcd.Status) (etcd.Status, error) {
		if s.Revision > 1000 && g.disarmed.Load() == 0 {
			s.Errors = []string{"memberID:8211f1d0f64f3269 alarm:NOSPACE "}
		}
		return s, nil
	}
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, int64(1), g.disarmed.Load())
}
