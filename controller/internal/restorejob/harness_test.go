package restorejob

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/controller/api"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/proof"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
)

// platform is one real API server with its garbage collector for all tests of the package; each test has a namespace of its own.
var platform struct {
	once    sync.Once
	err     error
	dir     string
	cluster *kube.Cluster
	client  client.WithWatch
	names   atomic.Int64
}

// pause is how long a test waits before it looks again: long, as many tests look at once and each look is a request.
const pause = 150 * time.Millisecond

const ownNamespace = "cozy-etcd"

func stopPlatform() {
	if platform.cluster != nil {
		platform.cluster.Stop()
	}
	if platform.dir != "" {
		_ = os.RemoveAll(platform.dir)
	}
}

func startPlatform(ctx context.Context) error {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	bin := os.Getenv("COZY_ETCD_BIN")
	if bin == "" {
		bin = filepath.Join(root, "bin")
	}
	if platform.dir, err = os.MkdirTemp("", "restorejob-"); err != nil {
		return err
	}
	if platform.cluster, err = kube.Start(ctx, kube.Options{Dir: platform.dir, Bin: bin}); err != nil {
		return err
	}
	err = platform.cluster.InstallCRDs(ctx, filepath.Join(root, "charts", "etcd-controller", "files", "crds"), filepath.Join(root, "tests", "env", "crds"))
	if err != nil {
		return err
	}
	if platform.client, err = client.NewWithWatch(platform.cluster.Config, client.Options{Scheme: api.NewScheme()}); err != nil {
		return err
	}
	if err := addFutureField(ctx, platform.client); err != nil {
		return err
	}
	if err := installFence(ctx, platform.client, filepath.Join(root, "charts", "etcd-controller")); err != nil {
		return err
	}
	if err := platform.cluster.StartControllers(ctx); err != nil {
		return err
	}
	return platform.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}})
}

// addFutureField gives EtcdCluster a field that our types do not know, as a later operator may.
func addFutureField(ctx context.Context, c client.Client) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: "etcdclusters.etcd-operator.cozystack.io"}, crd); err != nil {
		return err
	}
	preserve := true
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["futureField"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	return c.Update(ctx, crd)
}

// rig is one test's namespace with a hand-driven operator and a reconciler that is driven pass by pass.
type rig struct {
	t      *testing.T
	ns     string
	admin  client.WithWatch
	events *events.FakeRecorder
	source record.Source
	// sources, where set, answers instead of source.
	sources Sources
	ops     operator
	// artifacts, where set, changes what the object store answers; revisions has that of each copy by its key.
	artifacts  func(verb string) error
	revisions  sync.Map
	proven     record.Proof
	facts      artifact.Facts
	liveKeys   []string // of every live member
	listError  error    // ends their list
	disarmed   atomic.Int64
	background *Background
	stored     sync.Map // keys of prepared copies

	missingFence bool // the controller's flag

	late    time.Duration // added to the clock
	killAt  int           // the write after which the controller dies; 0 means never
	fail    func(verb string, o client.Object) error
	mu      sync.Mutex
	writes  []string
	answers func(member string, s etcd.Status) (etcd.Status, error)
	// refuseRead may refuse to let a client read.
	refuseRead func(as etcd.Target) error
}

type killed struct{ write string }

func newRig(t *testing.T) *rig {
	t.Helper()
	platform.once.Do(func() { platform.err = startPlatform(context.Background()) })
	require.NoError(t, platform.err)
	g := &rig{
		t: t, admin: platform.client, ns: fmt.Sprintf("tenant-%d", platform.names.Add(1)), events: events.NewFakeRecorder(1000),
		source: record.Source{Endpoint: "http://s3:9000", Bucket: "b", Key: "p/x.db", Region: "r", ForcePathStyle: true, CredentialsSecretName: "creds"},
	}
	g.ops = operator{g: g, members: -1}
	g.background = NewBackground()
	g.proven = record.Proof{SizeBytes: 20512, Checksum: "sha256:5a", InUseBytes: 20480, DatabaseBytes: 20480, Minor: "3.6", Revision: 900, Revisions: 800, Keys: 7}
	require.NoError(t, g.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.ns}}))
	g.await(func() bool {
		return g.admin.Get(t.Context(), client.ObjectKey{Namespace: g.ns, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
	return g
}

// await waits for what others do: garbage collection, the end of a namespace, a ServiceAccount.
func (g *rig) await(done func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(pause) {
		require.True(g.t, time.Now().Before(deadline), "it never happens")
	}
}

func (g *rig) reconciler() *Reconciler {
	c := g.watched()
	return &Reconciler{
		Client: c, Reader: g.admin, Records: &record.Store{Client: c, Reader: g.admin, Namespace: ownNamespace}, Sources: g, Dialer: g, Keys: g, Alarms: g, Logins: g, Events: g.events,
		Artifacts: g, Background: g.background, MissingFence: g.missingFence,
		Locks:         &lock.Store{Client: c, Leases: g.admin, Live: g.admin, Now: time.Now},
		TLS:           func(context.Context, *unstructured.Unstructured) (*tls.Config, error) { return nil, nil },
		Now:           func() time.Time { return time.Now().Add(g.late) },
		RestoreMinors: func(context.Context) ([]string, error) { return []string{"3.6"}, nil },
	}
}

// watched counts the writes of the controller, lets them fail, and lets the controller die after one of them.
func (g *rig) watched() client.WithWatch {
	return interceptor.NewClient(g.admin, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			options := client.CreateOptions{}
			options.ApplyOptions(opts)
			verb := "create"
			if len(options.DryRun) > 0 {
				verb = "dry-run"
			}
			return g.write(verb, o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return g.write("update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return g.write("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return g.write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return g.write(sub, o, func() error { return c.SubResource(sub).Create(ctx, o, s, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return g.write("patch "+sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

func (g *rig) write(verb string, o client.Object, do func() error) error {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(o).Elem().Name()
	}
	name := verb + " " + kind
	if g.fail != nil {
		if err := g.fail(name, o); err != nil {
			return err
		}
	}
	err := do()
	if verb == "dry-run" || err != nil {
		return err
	}
	g.mu.Lock()
	g.writes = append(g.writes, name)
	n := len(g.writes)
	g.mu.Unlock()
	if n == g.killAt {
		panic(killed{name})
	}
	return nil
}

// Source implements Sources.
func (g *rig) Source(ctx context.Context, backup *backupsv1alpha1.Backup) (record.Source, error) {
	if g.sources != nil {
		return g.sources.Source(ctx, backup)
	}
	return g.source, nil
}

func (g *rig) artifact(verb string) error {
	if g.artifacts != nil {
		return g.artifacts(verb)
	}
	return nil
}

// Prove implements Artifacts.
func (g *rig) Prove(context.Context, string, record.Source, proof.Login) (record.Proof, error) {
	return g.proven, g.artifact("prove")
}

// Prepare implements Artifacts.
func (g *rig) Prepare(_ context.Context, _, owner string, source record.Source, proven record.Proof, plan record.Prepared) (record.Prepared, error) {
	if err := g.artifact("prepare"); err != nil {
		return plan, err
	}
	if plan.Key != artifact.PreparedKey(source.Key, owner) || proven.Minor == "" {
		return plan, fmt.Errorf("cannot prepare %+v from %+v of etcd %q", plan, source, proven.Minor)
	}
	plan.Revision = proven.Revision + plan.Bump
	g.revisions.Store(plan.Key, plan.Revision)
	g.stored.Store(plan.Key, true)
	return plan, nil
}

// Discard implements Artifacts.
func (g *rig) Discard(_ context.Context, _, _ string, _ record.Source, key string) error {
	if err := g.artifact("discard"); err != nil {
		return err
	}
	g.stored.Delete(key)
	return nil
}

func nested(u *unstructured.Unstructured, path ...string) (string, bool, error) {
	return unstructured.NestedString(u.Object, path...)
}

// Dial implements etcd.Dialer: members answer as the hand-driven operator would have made them.
func (g *rig) Dial(target etcd.Target) (etcd.Reader, error) {
	member, rest, _ := strings.Cut(target.Host, ".")
	if rest != "etcd."+g.ns+".svc" || target.Port != 2379 {
		return nil, fmt.Errorf("no such host %s:%d", target.Host, target.Port)
	}
	return &fakeMember{g: g, name: member}, nil
}

type fakeMember struct {
	g      *rig
	name   string
	target etcd.Target
}

func (m *fakeMember) Status(ctx context.Context) (etcd.Status, error) {
	cluster := &etcdv1alpha2.EtcdCluster{}
	if err := m.g.admin.Get(ctx, client.ObjectKey{Namespace: m.g.ns, Name: "etcd"}, cluster); err != nil {
		return etcd.Status{}, err
	}
	id, err := strconv.ParseUint(cluster.Status.ClusterID, 16, 64)
	if err != nil {
		return etcd.Status{}, errors.New("connection refused")
	}
	s := etcd.Status{ClusterID: id, Version: "3.6.11", Revision: 1000}
	if b := cluster.Spec.Bootstrap; b != nil {
		if revision, ok := m.g.revisions.Load(b.Restore.Source.S3.Key); ok {
			s.Revision = revision.(int64)
		}
	}
	if m.g.answers != nil {
		return m.g.answers(m.name, s)
	}
	return s, nil
}

func (m *fakeMember) Members(context.Context) ([]etcd.Member, error) {
	return nil, errors.New("not asked here")
}
func (m *fakeMember) HashKV(_ context.Context, revision int64) (etcd.Hash, error) {
	return etcd.Hash{Hash: uint32(revision), HashRevision: revision}, nil
}
func (m *fakeMember) CountKeys(ctx context.Context, revision int64) (int64, error) {
	if s, err := m.Status(ctx); err != nil || revision > s.Revision {
		return 0, fmt.Errorf("no revision %d yet: %w", revision, err)
	}
	return 7, nil
}
func (m *fakeMember) Close() error { return nil }

// once makes one pass; a dead controller is started anew.
func (g *rig) once(job string) (res ctrl.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			g.background = NewBackground()
			res, err = ctrl.Result{RequeueAfter: soon}, nil
		}
	}()
	return g.reconciler().Reconcile(g.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: g.ns, Name: job}})
}

// run drives the controller, and the operator while the controller waits, until the job is as wanted.
func (g *rig) run(name string, until func(*backupsv1alpha1.RestoreJob) bool) *backupsv1alpha1.RestoreJob {
	g.t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for {
		res, err := g.once(name)
		job := g.job(name)
		if until(job) {
			return job
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("the job does not get there: error %v, status %+v", err, job.Status)
		}
		if res.RequeueAfter == soon && err == nil {
			continue
		}
		g.ops.step()
		time.Sleep(pause)
	}
}

// finish drives a job to its end, cleanup included.
func (g *rig) finish(name string) *backupsv1alpha1.RestoreJob {
	g.t.Helper()
	return g.run(name, func(j *backupsv1alpha1.RestoreJob) bool { return j == nil || done(j) })
}

// job returns nil for one that is gone.
func (g *rig) job(name string) *backupsv1alpha1.RestoreJob {
	job := &backupsv1alpha1.RestoreJob{}
	if err := g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: name}, job); err != nil {
		require.NoError(g.t, client.IgnoreNotFound(err))
		return nil
	}
	return job
}

func (g *rig) create(objects ...client.Object) {
	g.t.Helper()
	for _, o := range objects {
		o.SetNamespace(g.ns)
		require.NoError(g.t, g.admin.Create(g.t.Context(), o), "%T", o)
	}
}

func (g *rig) cluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterKind)
	if err := g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: "etcd"}, u); err != nil {
		require.NoError(g.t, client.IgnoreNotFound(err))
		return nil
	}
	return u
}

func (g *rig) helmRelease() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(fluxv2.GroupVersion.WithKind("HelmRelease"))
	if err := g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: "etcd"}, u); err != nil {
		require.NoError(g.t, client.IgnoreNotFound(err))
		return nil
	}
	return u
}

func (g *rig) records() []*record.Record {
	s := &record.Store{Reader: g.admin, Namespace: ownNamespace}
	list, err := s.List(g.t.Context(), client.MatchingLabels{record.LabelNamespace: g.ns})
	require.NoError(g.t, err)
	return list
}

// tenant brings up what a restore finds: a release, its cluster with members, a Backup, and the job.
func (g *rig) tenant(job string) {
	g.t.Helper()
	g.create(newRelease(), newBackup(), newJob(job))
	g.apply(chartCluster(g.ns, true))
	g.ops.up()
}

// apply is what helm-controller does.
func (g *rig) apply(u *unstructured.Unstructured) {
	g.t.Helper()
	require.NoError(g.t, g.admin.Apply(g.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("helm-controller"), client.ForceOwnership))
}

func newRelease() *fluxv2.HelmRelease {
	return &fluxv2.HelmRelease{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd", Finalizers: []string{"tests/helm"}},
		Spec:       fluxv2.HelmReleaseSpec{Interval: metav1.Duration{Duration: time.Minute}, ChartRef: &fluxv2.ChartRef{Kind: "OCIRepository", Name: "etcd"}},
	}
}

func etcdRef() corev1.TypedLocalObjectReference {
	group := "apps.cozystack.io"
	return corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "Etcd", Name: "etcd"}
}

func newBackup() *backupsv1alpha1.Backup {
	group := "strategy.backups.cozystack.io"
	return &backupsv1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: "good"},
		Spec: backupsv1alpha1.BackupSpec{
			ApplicationRef: etcdRef(), StrategyRef: corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "Etcd", Name: "s3"},
			TakenAt: metav1.Now(), DriverMetadata: map[string]string{backupsv1alpha1.MetadataRevision: "900"},
		},
		Status: backupsv1alpha1.BackupStatus{Phase: backupsv1alpha1.BackupReady, Artifact: &backupsv1alpha1.BackupArtifact{URI: "s3://b/p/x.db", SizeBytes: 1}},
	}
}

func newJob(name string) *backupsv1alpha1.RestoreJob {
	return &backupsv1alpha1.RestoreJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       backupsv1alpha1.RestoreJobSpec{BackupRef: corev1.LocalObjectReference{Name: "good"}, Options: &runtime.RawExtension{Raw: []byte(`{"restoreTimeoutSeconds":900}`)}},
	}
}

// chartCluster is what the tenant chart renders, with or without its options.
func chartCluster(ns string, options bool) *unstructured.Unstructured {
	spec := map[string]any{
		"version": "3.6.11", "replicas": int64(3), "storage": map[string]any{"size": "1Gi"},
		"additionalMetadata": map[string]any{"labels": map[string]any{"cozystack.io/service": "etcd"}},
	}
	if options {
		spec["options"] = map[string]any{"snapshotCount": int64(10000), "quotaBackendBytes": int64(1 << 30)}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(clusterKind)
	u.SetNamespace(ns)
	u.SetName("etcd")
	u.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm", fluxv2.LabelName: "etcd", fluxv2.LabelNamespace: ns})
	u.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "etcd", "meta.helm.sh/release-namespace": ns})
	return u
}

func condition(job *backupsv1alpha1.RestoreJob, kind string) string {
	if c := meta.FindStatusCondition(job.Status.Conditions, kind); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}
