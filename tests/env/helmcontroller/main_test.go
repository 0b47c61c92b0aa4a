package helmcontroller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
)

var (
	flux    *helmcontroller.Controller
	cl      client.WithWatch
	clients kubernetes.Interface
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "helmcontroller")
	must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	bin, err := filepath.Abs("../../../bin")
	must(err)
	cluster, err := kube.Start(ctx, kube.Options{Dir: dir, Bin: bin})
	must(err)
	defer cluster.Stop()
	must(cluster.InstallCRDs(ctx, "../crds"))
	cl, err = client.NewWithWatch(cluster.Config, client.Options{Scheme: api.NewScheme()})
	must(err)
	clients, err = kubernetes.NewForConfig(cluster.Config)
	must(err)
	flux, err = helmcontroller.New(helmcontroller.Options{Config: cluster.Config, Charts: map[string]string{"demo": "testdata/demo"}, Log: logf})
	must(err)
	must(flux.Start(ctx))
	defer flux.Stop()
	return m.Run()
}

func logf(format string, args ...any) {
	if testing.Verbose() {
		fmt.Fprintf(os.Stderr, time.Now().Format("05.000 ")+format+"\n", args...)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// method is how a release is applied; every test of Helm's effects runs in both ways.
func eachMethod(t *testing.T, f func(t *testing.T, ns string, method option)) {
	for name, serverSide := range map[string]bool{"server-side": true, "client-side": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, namespace(t), func(hr *fluxv2.HelmRelease) { hr.Spec.Install.ServerSideApply = &serverSide })
		})
	}
}

type option func(*fluxv2.HelmRelease)

func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	require.NoError(t, cl.Create(t.Context(), ns))
	return ns.Name
}

// install creates the HelmRelease `demo` and waits until it is ready.
func install(t *testing.T, ns string, values map[string]any, opts ...option) *fluxv2.HelmRelease {
	t.Helper()
	hr := create(t, ns, values, opts...)
	await(t, hr, "be ready", ready)
	return hr
}

func create(t *testing.T, ns string, values map[string]any, opts ...option) *fluxv2.HelmRelease {
	t.Helper()
	hr := &fluxv2.HelmRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo"},
		Spec: fluxv2.HelmReleaseSpec{
			ChartRef: &fluxv2.ChartRef{Kind: "ExternalArtifact", Name: "demo"},
			Interval: metav1.Duration{Duration: time.Second},
			Install:  &fluxv2.Install{},
			Upgrade:  &fluxv2.Upgrade{},
			Values:   raw(t, values),
		},
	}
	for _, o := range opts {
		o(hr)
	}
	require.NoError(t, cl.Create(t.Context(), hr))
	t.Cleanup(func() {
		live := &fluxv2.HelmRelease{}
		if cl.Get(context.Background(), client.ObjectKeyFromObject(hr), live) != nil {
			return
		}
		_ = cl.Delete(context.Background(), live)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		_ = cl.Patch(context.Background(), live, patch)
	})
	return hr
}

func raw(t *testing.T, values map[string]any) *apiextensionsv1.JSON {
	t.Helper()
	b, err := json.Marshal(values)
	require.NoError(t, err)
	return &apiextensionsv1.JSON{Raw: b}
}

func ready(hr *fluxv2.HelmRelease) bool {
	return helmcontroller.Idle(hr) && condition(hr, fluxv2.ConditionReady) == metav1.ConditionTrue
}

func condition(hr *fluxv2.HelmRelease, kind string) metav1.ConditionStatus {
	for _, c := range hr.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// await waits until the live object meets the predicate, and leaves it in hr.
func await(t *testing.T, hr *fluxv2.HelmRelease, what string, ok func(*fluxv2.HelmRelease) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		return cl.Get(t.Context(), client.ObjectKeyFromObject(hr), hr) == nil && ok(hr)
	}, 30*time.Second, 50*time.Millisecond, "HelmRelease %s/%s should %s", hr.Namespace, hr.Name, what)
}

// change edits the spec and waits until helm-controller is idle at the new generation.
func change(t *testing.T, hr *fluxv2.HelmRelease, edit func(*fluxv2.HelmRelease)) {
	t.Helper()
	patchSpec(t, hr, edit)
	generation := hr.Generation
	await(t, hr, "be idle", func(hr *fluxv2.HelmRelease) bool { return hr.Generation >= generation && helmcontroller.Idle(hr) })
}

func patchSpec(t *testing.T, hr *fluxv2.HelmRelease, edit func(*fluxv2.HelmRelease)) {
	t.Helper()
	require.NoError(t, cl.Get(t.Context(), client.ObjectKeyFromObject(hr), hr))
	before := hr.DeepCopy()
	edit(hr)
	require.NoError(t, cl.Patch(t.Context(), hr, client.MergeFrom(before)))
}
