package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/writes"
)

// codeWrites runs the example strategy through the product's builders: the job of a Plan, the snapshot that a BackupJob asks
// for, the Backup that it leaves, those of a restore's safety copy, a suspended release, and the cluster that a restore makes
// of what the chart rendered.
func codeWrites(t *testing.T, clusters []named) []named {
	t.Helper()
	snapshot := snapshotOf(t)
	destination := complete(t, snapshot)
	request, err := backupstrategy.BackupOf(job(), snapshot)
	require.NoError(t, err)
	request.TakenAt = metav1.NewTime(time.Unix(1767322445, 0))
	backup, err := backupstrategy.NewBackup(request)
	require.NoError(t, err)

	all := []named{
		{"backupstrategy: EtcdSnapshot", plain(t, snapshot, etcdv1alpha2.GroupVersion.WithKind("EtcdSnapshot"))},
		{"backupstrategy: Backup", plain(t, backup, backupsv1alpha1.GroupVersion.WithKind("Backup"))},
	}
	all = append(all, safetyWrites(t, destination)...)
	all = append(all, planWrites(t), suspended(t))
	source := destination.Location()
	source.Key = destination.ObjectKey(snapshot.Name)
	restore := map[string]any{"restore": map[string]any{"source": map[string]any{"s3": toMap(t, &source)}}}
	for _, c := range clusters {
		if c.obj.GetKind() == "EtcdCluster" && strings.HasPrefix(c.from, "charts/") {
			obj := c.obj.DeepCopy()
			require.NoError(t, unstructured.SetNestedMap(obj.Object, restore, "spec", "bootstrap"))
			require.NoError(t, unstructured.SetNestedField(obj.Object, int64(1800), "spec", "progressDeadlineSeconds"))
			all = append(all, named{c.from + ", restored", obj})
		}
	}
	return all
}

// complete gives a snapshot the status of the operator's success.
func complete(t *testing.T, snapshot *etcdv1alpha2.EtcdSnapshot) backupstrategy.Destination {
	t.Helper()
	destination, ok := backupstrategy.DestinationOf(snapshot.Spec)
	require.True(t, ok)
	snapshot.Status = etcdv1alpha2.EtcdSnapshotStatus{
		Phase: etcdv1alpha2.SnapshotComplete,
		Artifact: &etcdv1alpha2.SnapshotArtifact{
			URI: destination.URI(snapshot.Name), SizeBytes: 20512, Checksum: "sha256:" + strings.Repeat("0", 64),
		},
	}
	snapshot.CreationTimestamp = metav1.NewTime(time.Unix(1767322445, 0))
	return destination
}

// safetyWrites are the EtcdSnapshot and the Backup of a restore's safety copy.
func safetyWrites(t *testing.T, destination backupstrategy.Destination) []named {
	t.Helper()
	restore := &backupsv1alpha1.RestoreJob{}
	example(t, "restorejob.yaml", restore)
	restore.Namespace, restore.UID = "default", "1f1e2d3c-0000-0000-0000-000000000000"
	safety := writes.Safety{Application: "etcd", Strategy: "etcd-s3", Beside: destination, Key: destination.ObjectKey("nightly")}
	snapshot, err := safety.Snapshot(restore, backupstrategy.Facts{Version: "3.6.11", ClusterSpec: "{}"})
	require.NoError(t, err)
	asked := plain(t, snapshot, etcdv1alpha2.GroupVersion.WithKind("EtcdSnapshot"))
	complete(t, snapshot)
	backup, err := safety.Backup(restore, snapshot)
	require.NoError(t, err)
	return []named{
		{"RestoreJob: EtcdSnapshot", asked},
		{"RestoreJob: Backup", plain(t, backup, backupsv1alpha1.GroupVersion.WithKind("Backup"))},
	}
}

func planWrites(t *testing.T) named {
	t.Helper()
	plan := &backupsv1alpha1.Plan{}
	example(t, "plan.yaml", plan)
	plan.Namespace, plan.UID = "default", "2f1e2d3c-0000-0000-0000-000000000000"
	run := writes.PlanJob(plan, "nightly-29455374")
	require.True(t, metav1.IsControlledBy(run, plan))
	return named{"Plan: BackupJob", plain(t, run, backupsv1alpha1.GroupVersion.WithKind("BackupJob"))}
}

// suspended is a release as a restore holds it.
func suspended(t *testing.T) named {
	t.Helper()
	release := merged(t, bases(t)["release"], `{metadata: {name: suspended, finalizers: null}, spec: {suspend: null}}`)
	patch, err := sigsyaml.Marshal(writes.Suspension(release.GetFinalizers(), "1f1e2d3c-0000-0000-0000-000000000000", false))
	require.NoError(t, err)
	release = merged(t, release, string(patch))
	require.NotEmpty(t, release.GetFinalizers())
	return named{"RestoreJob: HelmRelease, suspended", release}
}

func job() *backupsv1alpha1.BackupJob {
	j := &backupsv1alpha1.BackupJob{}
	j.Name, j.Namespace, j.UID = "nightly-29455374", "default", "0f1e2d3c-0000-0000-0000-000000000000"
	group := backupsv1alpha1.DefaultApplicationGroup
	j.Spec.ApplicationRef.APIGroup, j.Spec.ApplicationRef.Kind, j.Spec.ApplicationRef.Name = &group, backupsv1alpha1.EtcdApplicationKind, "etcd"
	j.Spec.BackupClassName = "etcd-s3"
	return j
}

// snapshotOf is what a job with the example class and strategy asks for.
func snapshotOf(t *testing.T) *etcdv1alpha2.EtcdSnapshot {
	t.Helper()
	class, strategy := &backupsv1alpha1.BackupClass{}, &strategyv1alpha1.Etcd{}
	example(t, "backupclass.yaml", class)
	example(t, "strategy.yaml", strategy)
	row, err := backupstrategy.Resolve(class, job().Spec.ApplicationRef)
	require.NoError(t, err)
	app := backupstrategy.Application(job().Spec.ApplicationRef, "default", nil)
	destination, err := backupstrategy.Render(strategy.Spec.Template, app, row.Parameters)
	require.NoError(t, err)
	snapshot, err := backupstrategy.NewSnapshot(backupstrategy.SnapshotRequest{
		Job: job(), Cluster: "etcd", Strategy: strategy.Name, Parameters: row.Parameters, Destination: destination,
		Facts: backupstrategy.Facts{Version: "3.6.11", ClusterID: "3fcee40164b50008", Revision: "31", ClusterSpec: "{}"},
	})
	require.NoError(t, err)
	return snapshot
}

func example(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(), "examples/backup", file))
	require.NoError(t, err)
	require.NoError(t, sigsyaml.UnmarshalStrict(content, into))
}

func toMap(t *testing.T, typed any) map[string]any {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	require.NoError(t, err)
	return m
}

// plain is a typed object as it goes over the wire.
func plain(t *testing.T, typed any, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: toMap(t, typed)}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// reasonsOf reads the reason constants of the API package.
func reasonsOf(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(), "controller/api/backups/v1alpha1/*conditions.go"))
	require.NoError(t, err)
	var reasons []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) == 0 {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.Equal(t, spec.Names[0].Name, "Reason"+value)
			reasons = append(reasons, value)
			return true
		})
	}
	require.Contains(t, reasons, backupsv1alpha1.ReasonSnapshotStored)
	require.Contains(t, reasons, backupsv1alpha1.ReasonFenceLifted)
	return reasons
}

// acceptsOurReasons writes each reason in a condition: the API server refuses what kstatus and kubectl could not read.
func acceptsOurReasons(t *testing.T, s *server) {
	obj := &backupsv1alpha1.RestoreJob{}
	obj.Name, obj.Namespace, obj.Spec.BackupRef.Name = "reasons-"+strconv.FormatInt(serial.Add(1), 10), "default", "b"
	require.NoError(t, s.client.Create(t.Context(), obj))
	before := obj.DeepCopy()
	for i, reason := range reasonsOf(t) {
		obj.Status.Conditions = append(obj.Status.Conditions, metav1.Condition{
			Type: "Type" + strconv.Itoa(i), Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Now(),
		})
	}
	require.NoError(t, s.client.Status().Patch(t.Context(), obj, client.MergeFrom(before)))
}
