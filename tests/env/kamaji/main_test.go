package kamaji_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

var (
	config *rest.Config
	cl     client.Client
	bin    string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "kamaji")
	must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	bin, err = filepath.Abs("../../../bin")
	must(err)
	cluster, err := kube.Start(ctx, kube.Options{Dir: dir, Bin: bin})
	must(err)
	defer cluster.Stop()
	must(cluster.InstallCRDs(ctx, "../crds"))
	must(cluster.StartControllers(ctx))
	config = cluster.Config
	cl, err = client.New(config, client.Options{Scheme: api.NewScheme()})
	must(err)
	return m.Run()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// tenancy is a namespace with a DataStore on an etcd of its own, and a double that looks after it.
type tenancy struct {
	ns     string
	etcd   *authority
	addr   string
	double *kamaji.Controller
}

func (s *tenancy) resolve(string) string { return s.addr }

// start runs a double of a mode. Doubles of two tests must not run at once: each looks after every DataStore.
func start(t *testing.T, mode kamaji.Mode) *tenancy {
	t.Helper()
	s := &tenancy{ns: namespace(t), etcd: newAuthority(t, "etcd CA")}
	s.addr = s.startEtcd(t)
	double, err := kamaji.New(kamaji.Options{Config: config, Mode: mode, Resolve: s.resolve})
	require.NoError(t, err)
	require.NoError(t, double.Start(t.Context()))
	t.Cleanup(double.Stop)
	s.double = double
	return s
}

func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	require.NoError(t, cl.Create(t.Context(), ns))
	return ns.Name
}

func (s *tenancy) host() string { return "etcd." + s.ns + ".svc" }

// startEtcd runs one real member that demands client certificates.
func (s *tenancy) startEtcd(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cert, key := s.etcd.issue(t, "etcd", s.host(), "localhost")
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		return path
	}
	addr, peer := freeAddr(t), freeAddr(t)
	p, err := process.Start(t.Context(), process.Spec{
		Name: "etcd", Path: filepath.Join(bin, "etcd-3.6.11"), Dir: dir,
		Args: []string{
			"--data-dir", filepath.Join(dir, "data"), "--unsafe-no-fsync",
			"--listen-client-urls", "https://" + addr, "--advertise-client-urls", "https://" + addr,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer, "--initial-cluster", "default=http://" + peer,
			"--cert-file", write("server.crt", cert), "--key-file", write("server.key", key),
			"--trusted-ca-file", write("ca.crt", s.etcd.pem), "--client-cert-auth",
		},
		Ready: func(ctx context.Context) error {
			d := net.Dialer{}
			c, err := d.DialContext(ctx, "tcp", addr)
			if err == nil {
				err = c.Close()
			}
			return err
		},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return addr
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// secrets makes the two Secrets that the DataStore names.
func (s *tenancy) secrets(t *testing.T) {
	t.Helper()
	cert, key := s.etcd.issue(t, kamaji.RootUser)
	tlsSecret(t, s.ns, "etcd-ca-tls", s.etcd.pem, s.etcd.keyPEM)
	tlsSecret(t, s.ns, "etcd-client-tls", cert, key)
}

func tlsSecret(t *testing.T, ns, name string, cert, key []byte) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	err := cl.Create(t.Context(), s)
	if apierrors.IsAlreadyExists(err) {
		err = cl.Update(t.Context(), s)
	}
	require.NoError(t, err)
}

func (s *tenancy) newDataStore() *kamajiv1alpha1.DataStore {
	ref := func(secret, key string) kamajiv1alpha1.ContentRef {
		return kamajiv1alpha1.ContentRef{SecretReference: &kamajiv1alpha1.SecretReference{Name: secret, Namespace: s.ns, KeyPath: key}}
	}
	caKey := ref("etcd-ca-tls", "tls.key")
	return &kamajiv1alpha1.DataStore{
		ObjectMeta: metav1.ObjectMeta{Name: s.ns},
		Spec: kamajiv1alpha1.DataStoreSpec{
			Driver: kamajiv1alpha1.DriverEtcd, Endpoints: []string{s.host() + ":2379"},
			TLSConfig: &kamajiv1alpha1.TLSConfig{
				CertificateAuthority: kamajiv1alpha1.CertificateAuthority{Certificate: ref("etcd-ca-tls", "tls.crt"), PrivateKey: &caKey},
				ClientCertificate:    &kamajiv1alpha1.ClientCertificate{Certificate: ref("etcd-client-tls", "tls.crt"), PrivateKey: ref("etcd-client-tls", "tls.key")},
			},
		},
	}
}

func (s *tenancy) dataStore(t *testing.T) *kamajiv1alpha1.DataStore {
	t.Helper()
	ds := s.newDataStore()
	require.NoError(t, cl.Create(t.Context(), ds))
	t.Cleanup(func() { drop(ds.DeepCopy()) })
	return ds
}

// tenant creates a control plane on the DataStore and waits until it is set up.
func (s *tenancy) tenant(t *testing.T, name string) *kamajiv1alpha1.TenantControlPlane {
	t.Helper()
	replicas := int32(2)
	tcp := &kamajiv1alpha1.TenantControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec: kamajiv1alpha1.TenantControlPlaneSpec{
			DataStore:      s.ns,
			Kubernetes:     kamajiv1alpha1.KubernetesSpec{Version: "v1.34.0"},
			NetworkProfile: &kamajiv1alpha1.NetworkProfile{},
			ControlPlane: kamajiv1alpha1.ControlPlane{
				Deployment: kamajiv1alpha1.Deployment{Replicas: &replicas}, Service: kamajiv1alpha1.ControlPlaneService{ServiceType: "ClusterIP"},
			},
		},
	}
	require.NoError(t, cl.Create(t.Context(), tcp))
	t.Cleanup(func() { drop(tcp.DeepCopy()) })
	eventually(t, func() error {
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(tcp), tcp); err != nil {
			return err
		}
		if tcp.Status.Storage.DataStoreName == "" {
			return fmt.Errorf("status.storage is empty: %s", s.double.TenantError(s.ns, name))
		}
		return nil
	})
	return tcp
}

// drop deletes an object whose etcd is gone by now, so that the double of the next test does not try to reach it.
func drop(obj client.Object) {
	_ = cl.Delete(context.Background(), obj)
	_ = cl.Patch(context.Background(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	err := check()
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); err = check() {
		<-tick.C
	}
	require.NoError(t, err)
}

func (s *tenancy) pods(t *testing.T, tenant string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, cl.List(t.Context(), list, client.InNamespace(s.ns), client.MatchingLabels{kamaji.LabelTenant: tenant}))
	return list.Items
}

func (s *tenancy) runningPods(t *testing.T, tenant string) func() error {
	return func() error {
		n := 0
		for _, p := range s.pods(t, tenant) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp.IsZero() {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d Pods run, not 2", n)
		}
		return nil
	}
}

func key(ns, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: ns, Name: name}
}
