package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// restoreByHand does what a RestoreJob does to the cluster, with a copy of the caller's: delete it, wait until it is gone, create it with that copy.
func (a *tenantAPI) restoreByHand(t *testing.T, snapshot []byte) {
	t.Helper()
	ctx := t.Context()
	key := "by-hand/" + a.tenant.Namespace + "/" + fmt.Sprintf("%x", sha256.Sum256(snapshot)) + ".db"
	require.NoError(t, platform.S3.Put(ctx, key, snapshot, nil))
	recreate(t, a.tenant, func(c *etcdv1alpha2.EtcdCluster) {
		require.NotNil(t, c.Spec.Bootstrap, "an earlier restore says where the bucket is")
		c.Spec.Bootstrap.Restore.Source.S3.Key = key
	})
}

// recreate deletes a tenant's cluster of one member and makes it again with another spec.
func recreate(t *testing.T, tenant *harness.Tenant, change func(*etcdv1alpha2.EtcdCluster)) {
	t.Helper()
	ctx := t.Context()
	old, err := tenant.Cluster(ctx)
	require.NoError(t, err)
	again := &etcdv1alpha2.EtcdCluster{Spec: *old.Spec.DeepCopy()}
	again.Namespace, again.Name, again.Labels, again.Annotations = old.Namespace, old.Name, old.Labels, old.Annotations
	change(again)
	require.NoError(t, platform.Client.Delete(ctx, old))
	require.Eventually(t, func() bool {
		var members etcdv1alpha2.EtcdMemberList
		_, err := tenant.Cluster(ctx)
		return apierrors.IsNotFound(err) && platform.Client.List(ctx, &members, client.InNamespace(tenant.Namespace)) == nil && len(members.Items) == 0
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { return platform.Client.Create(ctx, again) == nil }, time.Minute, 20*time.Millisecond)
	_, err = tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(t, err)
}

// bumpedAndCompacted is what etcdutl makes of a snapshot with both options.
func bumpedAndCompacted(t *testing.T, snapshot []byte) []byte {
	t.Helper()
	return sealed(t, bumped(t, snapshot))
}

// bumpedOnly takes the compaction mark out again: etcdutl itself knows the two only together.
func bumpedOnly(t *testing.T, snapshot []byte) []byte {
	t.Helper()
	path := bumped(t, snapshot)
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		require.NotNil(t, meta.Get([]byte("scheduledCompactRev")))
		return meta.Delete([]byte("scheduledCompactRev"))
	}))
	require.NoError(t, db.Close())
	return sealed(t, path)
}

func bumped(t *testing.T, snapshot []byte) (path string) {
	t.Helper()
	dir := t.TempDir()
	from := filepath.Join(dir, "snapshot.db")
	require.NoError(t, os.WriteFile(from, snapshot, 0o600))
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(t.Context(), filepath.Join(platform.Bin, "etcdutl-3.6.11"), "snapshot", "restore", from, "--data-dir", data, "--bump-revision=10000000", "--mark-compacted")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return filepath.Join(data, "member", "snap", "db")
}

// sealed appends the sha256 that a snapshot ends with.
func sealed(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}
