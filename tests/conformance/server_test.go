// Package conformance holds the schemas of this project against the platform's.
//
// Without anything else it pins what our own CRDs and mirrors accept and refuse on a real API server. With UPSTREAM_CRDS,
// a folder of the platform's CRDs, the same objects and edits must meet the same verdicts there.
package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
)

const upstreamVariable = "UPSTREAM_CRDS"

// root is the repository's folder.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

func ourCRDs() []string {
	return []string{filepath.Join(root(), "charts/etcd-controller/files/crds"), filepath.Join(root(), "tests/env/crds")}
}

// upstreamCRDs is the platform's folder; the test is skipped where it is not at hand.
func upstreamCRDs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(upstreamVariable)
	if dir == "" {
		t.Skipf("%s is not set: the platform's CRDs are not part of this repository", upstreamVariable)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root(), dir)
	}
	return dir
}

// server is an API server with one set of CRDs.
type server struct {
	cluster *kube.Cluster
	client  client.Client
	dir     string
}

// serve starts an API server with the CRDs of the folders.
func serve(dirs ...string) (_ *server, err error) {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	bin := os.Getenv("COZY_ETCD_BIN")
	if bin == "" {
		bin = filepath.Join(root(), "bin")
	}
	ctx := context.Background()
	if s.cluster, err = kube.Start(ctx, kube.Options{Dir: dir, Bin: bin}); err != nil {
		return nil, err
	}
	if err = s.cluster.InstallCRDs(ctx, dirs...); err != nil {
		return nil, err
	}
	c, err := client.New(s.cluster.Config, client.Options{Scheme: api.NewScheme()})
	if err != nil {
		return nil, err
	}
	// Strict: an unknown field is an error rather than dropped in silence.
	s.client = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	return s, nil
}

func (s *server) stop() {
	if s.cluster != nil {
		s.cluster.Stop()
	}
	_ = os.RemoveAll(s.dir)
}

var running struct {
	sync.Mutex
	servers map[string]*server
}

// shared returns the one server with these CRDs that lasts as long as the package's tests.
func shared(t *testing.T, dirs ...string) *server {
	t.Helper()
	running.Lock()
	defer running.Unlock()
	key := fmt.Sprint(dirs)
	if s := running.servers[key]; s != nil {
		return s
	}
	s, err := serve(dirs...)
	require.NoError(t, err)
	if running.servers == nil {
		running.servers = map[string]*server{}
	}
	running.servers[key] = s
	return s
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range running.servers {
		s.stop()
	}
	os.Exit(code)
}

var serial atomic.Int64

// fresh is a copy under a name that no other object has, in the default namespace where the kind has namespaces.
func (s *server) fresh(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	obj = obj.DeepCopy()
	obj.SetName(obj.GetName() + "-" + strconv.FormatInt(serial.Add(1), 10))
	namespaced, err := s.client.IsObjectNamespaced(obj)
	require.NoError(t, err)
	if namespaced {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	return obj
}

// apply writes an edit and returns what is stored, or the refusal.
func (s *server) apply(t *testing.T, e edit) (*unstructured.Unstructured, error) {
	t.Helper()
	ctx := t.Context()
	obj := s.fresh(t, bases(t)[e.base])
	patch := client.RawPatch(types.MergePatchType, toJSON(t, e.merge))
	if e.verb == create {
		obj = merged(t, obj, e.merge)
	}
	err := s.client.Create(ctx, obj)
	switch e.verb {
	case create:
		return obj, err
	case update:
		require.NoError(t, err, "the base")
		err = s.client.Patch(ctx, obj, patch)
	case status:
		require.NoError(t, err, "the base")
		err = s.client.Status().Patch(ctx, obj, patch)
	}
	return obj, err
}

// refused tells a verdict of the schema from an accident.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}
