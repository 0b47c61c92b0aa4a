package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/env/s3"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// backupThrough takes a Backup through a proxy before the object store: a BackupClass of its own leads there.
func backupThrough(t *testing.T, tenant *harness.Tenant, job string) *s3.Proxy {
	t.Helper()
	ctx := t.Context()
	proxy, err := s3.StartProxy(platform.S3.Endpoint)
	require.NoError(t, err)
	t.Cleanup(proxy.Stop)
	class := &backupsv1alpha1.BackupClass{}
	require.NoError(t, platform.Client.Get(ctx, client.ObjectKey{Name: "etcd-s3"}, class))
	class.ObjectMeta = metav1.ObjectMeta{Name: "through-proxy-" + tenant.Namespace}
	class.Spec.Strategies[0].Parameters["endpoint"] = proxy.Endpoint
	require.NoError(t, platform.Client.Create(ctx, class))
	t.Cleanup(func() { _ = platform.Client.Delete(ctx, class) })
	require.NoError(t, platform.Client.Create(ctx, &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: job},
		Spec:       backupsv1alpha1.BackupJobSpec{ApplicationRef: application(), BackupClassName: class.Name},
	}))
	_, err = tenant.AwaitBackup(ctx, job, time.Minute)
	require.NoError(t, err)
	return proxy
}

// A store that fails for a while costs a restore time and nothing else.
func TestStoreFaultsDuringARestore(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant := newTenant(t, "store-faults", time.Hour, harness.Quick(1))
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/registry", "good", 200))
	want, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	proxy := backupThrough(t, tenant, "b1")
	a := artifactsOf(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/registry", "bad", 100))

	t.Run("an object that is not there, without s3:ListBucket", func(t *testing.T) {
		a.t = t
		proxy.ForbidListBucket(true)
		defer proxy.ForbidListBucket(false) // the operator's own snapshots look for the object first
		require.NoError(t, platform.S3.Delete(ctx, a.key))
		a.refused(backupsv1alpha1.ReasonObjectForbidden, "s3:ListBucket", a.key)
		a.put(a.good)
	})
	t.Run("an object that is there, without s3:ListBucket", func(t *testing.T) {
		a.t = t
		proxy.ForbidListBucket(true)
		defer proxy.ForbidListBucket(false)
		a.refused(backupsv1alpha1.ReasonListBucketForbidden, "s3:ListBucket", `Secret "etcd-backup-credentials"`)
	})
	t.Run("outages, broken downloads and a copy that cannot be deleted", func(t *testing.T) {
		copied := func(method string) func(*http.Request) bool {
			return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, ".prepared-") }
		}
		// More in a row than one request is tried, so that the reconciler has to try again, too.
		proxy.Inject(s3.Fault{Match: s3.Object(http.MethodHead, a.key), Status: http.StatusServiceUnavailable, Code: "SlowDown", Times: 5})
		proxy.Inject(s3.Fault{Match: s3.Object(http.MethodGet, a.key), Status: http.StatusInternalServerError, Code: "InternalError", Times: 2})
		proxy.Inject(s3.Fault{Match: s3.Object(http.MethodGet, a.key), CutAfter: int64(len(a.good) / 3), Times: 2})
		proxy.Inject(s3.Fault{Match: copied(http.MethodPut), Status: http.StatusInternalServerError, Code: "InternalError", Times: 5})
		proxy.Inject(s3.Fault{Match: copied(http.MethodPut), Break: true, Times: 1})
		proxy.Inject(s3.Fault{Match: copied(http.MethodPut), Delay: time.Second, Status: http.StatusRequestTimeout, Code: "RequestTimeout", Times: 1})
		defer proxy.Inject(s3.Fault{Match: copied(http.MethodDelete), Status: http.StatusForbidden, Code: "AccessDenied"})()
		_, err := tenant.Restore(ctx, "outages", "b1", nil)
		require.NoError(t, err)
		_, err = tenant.AwaitRestore(ctx, "outages", 2*time.Minute)
		require.NoError(t, err)
		got, err := harness.ReadKeys(ctx, c)
		require.NoError(t, err)
		require.Empty(t, want.Diff(got))
		require.Greater(t, asked(proxy, "HEAD ", a.key), 5, "the faults were met")
		require.Greater(t, asked(proxy, "GET ", a.key), 4)
		require.Greater(t, asked(proxy, "PUT ", ".prepared-"), 7)

		var left string
		require.Eventually(t, func() bool {
			left = eventNote(t, tenant.Namespace, backupsv1alpha1.ReasonPreparedObjectLeft)
			return left != ""
		}, 20*time.Second, 50*time.Millisecond)
		stored, err := platform.S3.List(ctx, "example/"+tenant.Namespace+"/")
		require.NoError(t, err)
		var copies []string
		for _, key := range stored {
			if strings.Contains(key, ".prepared-") {
				copies = append(copies, key)
			}
		}
		require.Len(t, copies, 2, "of the Backup, and of the safety snapshot")
		require.True(t, strings.Contains(left, copies[0]) || strings.Contains(left, copies[1]), "the event says what to delete by hand: %s", left)
		require.Contains(t, left, "s3:DeleteObject", "and why it is left")
	})
}

func asked(proxy *s3.Proxy, method, part string) (n int) {
	for _, request := range proxy.Requests() {
		if strings.HasPrefix(request, method) && strings.Contains(request, part) {
			n++
		}
	}
	return n
}

// eventNote is the text of an event of a reason, or empty.
func eventNote(t *testing.T, namespace, reason string) string {
	t.Helper()
	var list eventsv1.EventList
	require.NoError(t, platform.Client.List(t.Context(), &list, client.InNamespace(namespace)))
	for _, e := range list.Items {
		if e.Reason == reason {
			return e.Note
		}
	}
	return ""
}
