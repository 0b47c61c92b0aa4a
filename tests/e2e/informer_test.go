package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listerscorev1 "k8s.io/client-go/listers/core/v1"

	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

const (
	// converges is how long an informer may take to see the restored set, of which most is the API server's own pause before it dials etcd again.
	converges = 25 * time.Second
	// staysStale is how long the controls wait before they call it stale: 4 to 9 s is what those that see it were observed to take on a busy machine.
	staysStale = 15 * time.Second
	// atOnce is how long a watch at an old revision may take to be refused.
	atOnce = 2 * time.Second
	proven = "proof=informer"
)

// tenantAPI is a tenant's API server with objects in it, and an informer that outlives all restores that are done right.
type tenantAPI struct {
	t      *testing.T
	tenant *harness.Tenant
	server *kube.Cluster
	client kubernetes.Interface
	maps   typedcorev1.ConfigMapInterface
	lister listerscorev1.ConfigMapLister
	want   map[string]string // what the backup has
}

// The proof with a real API server: what its clients see after a restore is what was restored. What a snapshot holds is 200 objects; by the time of the
// restore 200 more were made and 50 deleted, and the informer has seen that.
func TestInformersEndWithExactlyTheRestoredSet(t *testing.T) {
	startController(t)
	a := startTenantAPI(t, "informers")
	backup := a.backup()

	t.Run("without a restart of the API server", func(t *testing.T) {
		old := a.diverge(t)
		a.restore(t, "r1")
		a.requireRestored(t, old)
	})
	t.Run("with a restart of the API server", func(t *testing.T) {
		old := a.diverge(t)
		a.restore(t, "r2")
		require.NoError(t, a.server.RestartAPIServer(t.Context()))
		a.requireRestored(t, old)
	})
	// The controls restore by hand, as the product refuses a copy that is not as it should be. The first shows that by hand is as good, given the right copy.
	t.Run("by hand", func(t *testing.T) {
		old := a.diverge(t)
		a.restoreByHand(t, bumpedAndCompacted(t, backup))
		a.requireRestored(t, old)
	})
	for _, control := range []struct {
		name string
		copy func(*testing.T, []byte) []byte
	}{
		{"control: without the compaction mark", bumpedOnly},
		{"control: without the bump", func(_ *testing.T, b []byte) []byte { return b }},
	} {
		t.Run(control.name, func(t *testing.T) {
			old := a.diverge(t)
			a.restoreByHand(t, control.copy(t, backup))
			stale, hangs := a.difference(t, staysStale), !refusedAtOnce(t, a.maps, old)
			require.NotEmpty(t, stale, "the informer must miss the restore, else the proof proves nothing")
			require.True(t, hangs, "a watch at revision %s must hang, else the proof proves nothing", old)
			t.Logf("as expected, the informer is stale: %s", stale)
			// Nothing heals that informer: bookmarks have told it newer revisions, or it waits for one that is far off.
			require.NoError(t, a.server.RestartAPIServer(t.Context()))
			a.inform()
		})
	}
}

func startTenantAPI(t *testing.T, namespace string) *tenantAPI {
	t.Helper()
	ctx := t.Context()
	tenant := newTenant(t, namespace, time.Hour, harness.Quick(1))
	a := &tenantAPI{t: t, tenant: tenant, want: map[string]string{}}
	var err error
	a.server, err = platform.TenantAPIServer(ctx, namespace, namespace, namespace)
	require.NoError(t, err)
	t.Cleanup(a.server.Stop)
	a.client, err = kubernetes.NewForConfig(a.server.Config)
	require.NoError(t, err)
	a.maps = a.client.CoreV1().ConfigMaps("default")
	a.inform()
	return a
}

// inform starts an informer.
func (a *tenantAPI) inform() {
	ctx := a.t.Context()
	factory := informers.NewSharedInformerFactoryWithOptions(a.client, 0, informers.WithNamespace("default"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = proven }))
	a.lister = factory.Core().V1().ConfigMaps().Lister()
	factory.Start(ctx.Done())
	a.t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(ctx.Done())
}

// backup makes the first objects and returns the snapshot of them.
func (a *tenantAPI) backup() []byte {
	a.t.Helper()
	a.create(a.t, "kept", 200)
	for i := range 200 {
		a.want[name("kept", i)] = "kept"
	}
	backUp(a.t, a.tenant, "b1")
	return artifactsOf(a.t, a.tenant).good
}

func name(kind string, i int) string { return fmt.Sprintf("%s-%03d", kind, i) }

// eight does something n times, several at once.
func eight(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

func (a *tenantAPI) create(t *testing.T, kind string, n int) {
	t.Helper()
	key, value, _ := strings.Cut(proven, "=")
	require.NoError(t, eight(n, func(i int) error {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(kind, i), Labels: map[string]string{key: value}}, Data: map[string]string{"of": kind}}
		_, err := a.maps.Create(t.Context(), o, metav1.CreateOptions{})
		return err
	}))
}

// diverge brings the objects away from what the backup has, waits until the informer has seen that, and returns the resource version of then.
func (a *tenantAPI) diverge(t *testing.T) (old string) {
	t.Helper()
	require.Empty(t, a.difference(t, converges), "where this begins")
	a.create(t, "later", 200)
	require.NoError(t, eight(50, func(i int) error { return a.maps.Delete(t.Context(), name("kept", i), metav1.DeleteOptions{}) }))
	require.Eventually(t, func() bool {
		seen := a.seen(t)
		return len(seen) == 350 && seen[name("later", 199)] == "later" && seen[name("kept", 49)] == ""
	}, converges, 20*time.Millisecond, "the informer sees what is written")
	list, err := a.maps.List(t.Context(), metav1.ListOptions{LabelSelector: proven})
	require.NoError(t, err)
	require.Len(t, list.Items, 350)
	return list.ResourceVersion
}

func (a *tenantAPI) restore(t *testing.T, job string) {
	t.Helper()
	_, err := a.tenant.Restore(t.Context(), job, "b1", nil)
	require.NoError(t, err)
	_, err = a.tenant.AwaitRestore(t.Context(), job, 2*time.Minute)
	require.NoError(t, err)
}

// seen is what the informer holds: names and of which kind their data are.
func (a *tenantAPI) seen(t *testing.T) map[string]string {
	t.Helper()
	all, err := a.lister.List(labels.Everything())
	require.NoError(t, err)
	return byName(all)
}

func byName(all []*corev1.ConfigMap) map[string]string {
	seen := make(map[string]string, len(all))
	for _, o := range all {
		seen[o.Name] = o.Data["of"]
	}
	return seen
}

// difference is empty as soon as the informer holds exactly what the backup has, else it says after some time how the two differ.
func (a *tenantAPI) difference(t *testing.T, within time.Duration) (text string) {
	t.Helper()
	began := time.Now()
	for {
		seen := a.seen(t)
		if maps.Equal(seen, a.want) {
			t.Logf("the informer has the restored set after %s", time.Since(began).Round(time.Millisecond))
			return ""
		}
		if time.Since(began) > within {
			return harness.Keys(a.want).Diff(seen)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (a *tenantAPI) requireRestored(t *testing.T, old string) {
	t.Helper()
	require.Empty(t, a.difference(t, converges))
	require.True(t, refusedAtOnce(t, a.maps, old), "a watch at revision %s hangs", old)
	list, err := a.maps.List(t.Context(), metav1.ListOptions{LabelSelector: proven})
	require.NoError(t, err)
	var live []*corev1.ConfigMap
	for i := range list.Items {
		live = append(live, &list.Items[i])
	}
	require.Equal(t, a.want, byName(live), "and so says etcd")
}

// refusedAtOnce opens a watch as a client does that was away during the restore.
func refusedAtOnce(t *testing.T, maps typedcorev1.ConfigMapInterface, revision string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atOnce)
	defer cancel()
	w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: proven, ResourceVersion: revision})
	if err != nil {
		require.True(t, tooOld(err), "%v", err)
		return true
	}
	defer w.Stop()
	select {
	case e, open := <-w.ResultChan():
		return open && e.Type == watch.Error && tooOld(apierrors.FromObject(e.Object))
	case <-ctx.Done():
		return false
	}
}

func tooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
