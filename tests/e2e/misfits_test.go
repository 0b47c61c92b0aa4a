package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

func application() corev1.TypedLocalObjectReference {
	group := backupsv1alpha1.DefaultApplicationGroup
	return corev1.TypedLocalObjectReference{APIGroup: &group, Kind: backupsv1alpha1.EtcdApplicationKind, Name: harness.ReleaseName}
}

// misfits is a tenant of etcd 3.5 with auth on, and a whole Backup of it: what a snapshot must fit to.
func misfits(t *testing.T) *artifacts {
	t.Helper()
	ctx := t.Context()
	values := harness.Quick(1)
	values["version"] = "3.5.35"
	tenant := newTenant(t, "misfits", time.Hour, values)
	backUp(t, tenant, "b1")
	require.NoError(t, platform.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "root"}, StringData: map[string]string{"username": "root", "password": "changed since"},
	}))
	// spec.auth cannot be changed, and the chart does not set it.
	recreate(t, tenant, func(c *etcdv1alpha2.EtcdCluster) {
		c.Spec.Auth = &etcdv1alpha2.AuthSpec{Enabled: true, RootCredentialsSecretRef: &corev1.LocalObjectReference{Name: "root"}}
	})
	return artifactsOf(t, tenant)
}

// hold puts another snapshot in the place of the Backup's, and lets the Backup say so.
func (a *artifacts) hold(content []byte) {
	a.t.Helper()
	a.put(content)
	a.patch(a.backup(), `{"status":{"artifact":{"sizeBytes":%d,"checksum":"sha256:%x"}}}`, len(content), sha256.Sum256(content))
}

// withAuth turns auth on in a snapshot, as etcd writes it, with a password for root.
func withAuth(t *testing.T, snapshot []byte, password string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "auth.db")
	require.NoError(t, os.WriteFile(path, bytes.Clone(snapshot[:len(snapshot)-sha256.Size]), 0o600))
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	user, err := proto.Marshal(&authpb.User{Name: []byte("root"), Password: hash, Roles: []string{"root"}})
	require.NoError(t, err)
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		require.NoError(t, tx.Bucket([]byte("authUsers")).Put([]byte("root"), user))
		return tx.Bucket([]byte("auth")).Put([]byte("authEnabled"), []byte{1})
	}))
	require.NoError(t, db.Close())
	return sealed(t, path)
}

// misfitCases are refused by what the snapshot is and what the cluster is, however whole the object. Of36 is a snapshot of etcd 3.6.
func (a *artifacts) misfitCases(of36 []byte) []spoiled {
	restore := func() { a.hold(a.good) }
	return []spoiled{
		{"a 3.6 snapshot onto 3.5", backupsv1alpha1.ReasonVersionUnsupported, []string{"the snapshot is of etcd 3.6", "spec.version is 3.5.35"}, func() { a.hold(of36) }, restore},
		{"auth on with another password", backupsv1alpha1.ReasonPasswordWrong, []string{`"root"`}, func() { a.hold(withAuth(a.t, a.good, "of then")) }, restore},
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
