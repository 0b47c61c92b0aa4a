package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdserver"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

func application() corev1.TypedLocalObjectReference {
	group := backupsv1alpha1.DefaultApplicationGroup
	return corev1.TypedLocalObjectReference{APIGroup: &group, Kind: backupsv1alpha1.EtcdApplicationKind, Name: harness.ReleaseName}
}

// of35 is a tenant of etcd 3.5 and a whole Backup of it.
func of35(t *testing.T) *artifacts {
	t.Helper()
	values := harness.Quick(1)
	values["version"] = "3.5.35"
	tenant := newTenant(t, "misfits", time.Hour, values)
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(t.Context(), c, "/registry", "good", 20))
	backUp(t, tenant, "b1")
	return artifactsOf(t, tenant)
}

// restored brings the Backup's keys back, with an operator and a controller that can do so.
func (a *artifacts) restored(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	old := a.cluster()
	c := dataStoreClient(t, a.tenant)
	want, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.NoError(t, harness.Write(ctx, c, "/registry", "bad", 10))
	require.NoError(t, harness.Write(ctx, c, "/later", "bad", 10))
	// A safety copy would stay in the bucket, which is to hold the Backup's object only.
	_, err = a.tenant.Restore(ctx, "whole", "b1", map[string]any{"safetySnapshot": false})
	require.NoError(t, err)
	_, err = a.tenant.AwaitRestore(ctx, "whole", time.Minute)
	require.NoError(t, err)
	now, err := a.tenant.AwaitWhole(ctx, 1, time.Second)
	require.NoError(t, err)
	require.NotEqual(t, old.UID, now.UID)
	require.Equal(t, old.Spec.Version, now.Spec.Version)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, want.Diff(got))
	status, err := c.Status(ctx, c.Endpoints()[0])
	require.NoError(t, err)
	require.Equal(t, old.Spec.Version, status.Version, "etcd itself was asked")
	require.Greater(t, status.Header.Revision, int64(len(want)+20), "no rewind")
}

// withAuthOn makes the cluster again with auth on; spec.auth cannot be changed, and the chart does not set it.
func (a *artifacts) withAuthOn(t *testing.T) {
	t.Helper()
	require.NoError(t, platform.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.tenant.Namespace, Name: "root"}, StringData: map[string]string{"username": "root", "password": "changed since"},
	}))
	recreate(t, a.tenant, func(c *etcdv1alpha2.EtcdCluster) {
		c.Spec.Bootstrap = nil
		c.Spec.Auth = &etcdv1alpha2.AuthSpec{Enabled: true, RootCredentialsSecretRef: &corev1.LocalObjectReference{Name: "root"}}
	})
}

// hold puts another snapshot in the place of the Backup's, and lets the Backup say so.
func (a *artifacts) hold(content []byte) {
	a.t.Helper()
	a.put(content)
	a.patch(a.backup(), `{"status":{"artifact":{"sizeBytes":%d,"checksum":"sha256:%x"}}}`, len(content), sha256.Sum256(content))
}

// withAuth is a snapshot that etcd 3.5 took of itself with auth on and this password for root.
func withAuth(t *testing.T, password string) []byte {
	t.Helper()
	ctx := t.Context()
	s, err := etcdserver.Start(ctx, filepath.Join(platform.Bin, "etcd-3.5.35"), filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	defer s.Stop()
	_, err = s.UserAdd(ctx, "root", password)
	require.NoError(t, err)
	_, err = s.RoleAdd(ctx, "root")
	require.NoError(t, err)
	_, err = s.UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = s.AuthEnable(ctx)
	require.NoError(t, err)
	root, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Username: "root", Password: password, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	snapshot, err := root.Snapshot(ctx)
	require.NoError(t, err)
	content, err := io.ReadAll(snapshot)
	require.NoError(t, err)
	return content
}

// misfitCases are refused by what the snapshot is and what the cluster is, however whole the object. Of36 is a snapshot of etcd 3.6.
func (a *artifacts) misfitCases(of36 []byte) []spoiled {
	restore := func() { a.hold(a.good) }
	return []spoiled{
		{"a 3.6 snapshot onto 3.5", backupsv1alpha1.ReasonVersionUnsupported, []string{"the snapshot is of etcd 3.6", "spec.version is 3.5.35"}, func() { a.hold(of36) }, restore},
		{"auth on with another password", backupsv1alpha1.ReasonPasswordWrong, []string{`"root"`}, func() { a.hold(withAuth(a.t, "of then")) }, restore},
		{"auth off, and spec.auth on", backupsv1alpha1.ReasonAuthMismatch, []string{"spec.auth is on"}, func() {}, func() {}},
	}
}

// spoiledRuns runs each case against the live cluster.
func (a *artifacts) spoiledRuns(t *testing.T, cases []spoiled) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a.t = t
			c.spoil()
			a.refused(c.reason, c.says...)
			c.mend()
		})
	}
}

// operatorCannot is the refusal where the running operator knows one minor only.
func operatorCannot() []spoiled {
	says := []string{"spec.version is 3.5.35", "can restore only 3.6"}
	return []spoiled{{"operator that cannot restore the minor", backupsv1alpha1.ReasonVersionUnsupported, says, func() {}, func() {}}}
}

// elsewhere is another tenant's object, whole and readable with the same credentials, that the Backup claims as its own.
func (a *artifacts) elsewhere(uri string) spoiled {
	key := "example/other-tenant/etcd/theirs.db"
	return spoiled{"another tenant's object", backupsv1alpha1.ReasonDestinationMismatch, []string{fmt.Sprintf("key is %q", key)}, func() {
		require.NoError(a.t, platform.S3.Put(a.t.Context(), key, a.good, nil))
		a.patch(a.backup(), `{"status":{"artifact":{"uri":"s3://%s/%s"}}}`, platform.S3.Bucket, key)
	}, func() { a.patch(a.backup(), `{"status":{"artifact":{"uri":%q}}}`, uri) }}
}
