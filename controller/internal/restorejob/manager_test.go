package restorejob

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

const controllerUser = "etcd-controller"

// grantRole binds the rights that are generated from the markers to one user, and nothing else.
func grantRole(t *testing.T, g *rig) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "charts", "etcd-controller", "files", "role.yaml"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	user := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: controllerUser}}
	documents := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); err != nil {
			break
		}
		u.SetNamespace("")
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: u.GetKind(), Name: u.GetName()}
		if u.GetKind() == "ClusterRole" {
			require.NoError(t, g.admin.Create(t.Context(), u))
			b := &rbacv1.ClusterRoleBinding{RoleRef: ref, Subjects: user}
			b.Name = controllerUser
			require.NoError(t, g.admin.Create(t.Context(), b))
			continue
		}
		u.SetNamespace(ownNamespace)
		require.NoError(t, g.admin.Create(t.Context(), u))
		b := &rbacv1.RoleBinding{RoleRef: ref, Subjects: user}
		b.Name, b.Namespace = controllerUser, ownNamespace
		require.NoError(t, g.admin.Create(t.Context(), b))
	}
}

// TestManagerRestores runs the reconciler as it is shipped: in a manager, woken by its watches alone, with the generated role as its only rights. The
// longest recheck is half a minute, so a restore that ends in a fraction of that was not waiting for one.
func TestManagerRestores(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	grantRole(t, g)
	config := rest.CopyConfig(platform.cluster.Config)
	config.Impersonate.UserName = controllerUser
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: api.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: CacheSelectors(), DefaultNamespaces: map[string]cache.Config{g.ns: {}}}, // the other tests drive their own jobs
	})
	require.NoError(t, err)
	r := g.reconciler()
	r.Client, r.Reader, r.Events = mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("etcd-controller")
	r.Records = &record.Store{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: ownNamespace}
	require.NoError(t, r.SetupWithManager(mgr))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()

	g.tenant("again")
	start := time.Now()
	for job := g.job("again"); !done(job); job = g.job("again") {
		require.Less(t, time.Since(start), 4*time.Minute, "%+v", job.Status)
		g.ops.step()
		time.Sleep(pause)
	}
	require.Equal(t, okPhase, g.job("again").Status.Phase, "%+v", g.job("again").Status)
	require.Empty(t, g.records())
	select {
	case err := <-ended:
		require.NoError(t, err, "the manager ended early")
	default:
	}
}
