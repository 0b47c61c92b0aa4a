package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// The main job on one member: what was backed up is what is there after the restore, and nothing else.
func TestBackUpDamageRestore(t *testing.T) {
	ctx := t.Context()
	startController(t)
	tenant := newTenant(t, "main-job", 5*time.Minute, harness.Quick(1))
	old, err := tenant.Cluster(ctx)
	require.NoError(t, err)
	c := dataStoreClient(t, tenant)
	require.NoError(t, harness.Write(ctx, c, "/registry", "good", 20))
	want, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)

	job := backUp(t, tenant, "b1")
	require.NotNil(t, job.Status.StartedAt)
	require.NotNil(t, job.Status.CompletedAt)
	backup := &backupsv1alpha1.Backup{}
	require.NoError(t, platform.Client.Get(ctx, types.NamespacedName{Namespace: tenant.Namespace, Name: job.Status.BackupRef.Name}, backup))
	require.Equal(t, backupsv1alpha1.BackupReady, backup.Status.Phase)
	require.Empty(t, backup.OwnerReferences, "deleting a job must never delete its Backup")
	require.Equal(t, old.Spec.Version, backup.Spec.DriverMetadata[backupsv1alpha1.MetadataEtcdVersion], "etcd itself was asked, over TLS")
	require.Equal(t, old.Status.ClusterID, backup.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterID])
	require.NotEmpty(t, backup.Spec.DriverMetadata[backupsv1alpha1.MetadataRevision])

	require.NoError(t, harness.Write(ctx, c, "/registry", "bad", 10))
	require.NoError(t, harness.Write(ctx, c, "/later", "bad", 10))
	_, err = tenant.Restore(ctx, "r1", "b1", nil)
	require.NoError(t, err)
	restore, err := tenant.AwaitRestore(ctx, "r1", 2*time.Minute)
	require.NoError(t, err)
	require.Contains(t, restore.Status.Message, `Keep Secret "etcd-backup-credentials" for as long as member`)
	restored, err := tenant.AwaitWhole(ctx, 1, time.Second)
	require.NoError(t, err, "Succeeded must mean whole")
	require.NotEqual(t, old.UID, restored.UID)
	require.NotEqual(t, old.Status.ClusterID, restored.Status.ClusterID)
	got, err := harness.ReadKeys(ctx, c)
	require.NoError(t, err)
	require.Empty(t, want.Diff(got))
}
