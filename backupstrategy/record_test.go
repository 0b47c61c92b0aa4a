package backupstrategy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

var goodChecksum = "sha256:" + strings.Repeat("0a", 32)

func job() *backupsv1alpha1.BackupJob {
	return &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "acme", UID: types.UID("0a1b2c3d-4e5f-6789-abcd-ef0123456789")},
		Spec: backupsv1alpha1.BackupJobSpec{
			ApplicationRef: etcdRef(), BackupClassName: "daily", PlanRef: &corev1.LocalObjectReference{Name: "plan"},
		},
	}
}

func facts() Facts {
	return Facts{Version: "3.6.11", ClusterID: "cafe", ClusterUID: "u-1", Revision: "42", ClusterSpec: `{"version":"3.6.11"}`}
}

func completeSnapshot(t *testing.T) *etcdv1alpha2.EtcdSnapshot {
	t.Helper()
	s, err := NewSnapshot(SnapshotRequest{
		Job: job(), Cluster: "etcd", Strategy: "s", Parameters: parameters(), Destination: destination(), Facts: facts(),
	})
	require.NoError(t, err)
	s.Status = etcdv1alpha2.EtcdSnapshotStatus{
		Phase:    etcdv1alpha2.SnapshotComplete,
		Artifact: &etcdv1alpha2.SnapshotArtifact{URI: "s3://backups/acme/etcd/nightly-0a1b2c3d.db", SizeBytes: 20512, Checksum: goodChecksum},
	}
	return s
}

func TestSnapshotName(t *testing.T) {
	require.Equal(t, "nightly-0a1b2c3d", SnapshotName(job()))
	for _, name := range []string{strings.Repeat("n", 253), strings.Repeat("n", 44) + "." + strings.Repeat("x", 20), strings.Repeat("n", 43) + "-.-" + "x", "a"} {
		j := job()
		j.Name = name
		got := SnapshotName(j)
		require.Empty(t, validation.IsDNS1123Subdomain(got), got)
		require.LessOrEqual(t, len(got+"-snapshot"), 63)
		require.True(t, strings.HasSuffix(got, "-0a1b2c3d"))
	}
}

func TestC21SnapshotNameFollowsTheUID(t *testing.T) {
	again := job()
	again.UID = "ffffffff-4e5f-6789-abcd-ef0123456789"
	require.NotEqual(t, SnapshotName(job()), SnapshotName(again), "a job of the same name, created later, means another object")
}

func TestNewSnapshot(t *testing.T) {
	s := completeSnapshot(t)
	require.True(t, metav1.IsControlledBy(s, job()))
	require.Equal(t, "etcd", s.Spec.ClusterRef.Name)
	require.Equal(t, "acme/etcd/", s.Spec.Destination.S3.Key)
	require.Equal(t, "nightly", s.Labels[backupsv1alpha1.LabelBackupJobName])
	require.Equal(t, "acme", s.Labels[backupsv1alpha1.LabelBackupJobNamespace])
	require.Equal(t, facts(), FactsOf(s.Annotations))
}

func TestLabelsOfALongName(t *testing.T) {
	j := job()
	j.Name = strings.Repeat("n", 64)
	require.NotContains(t, OwnerLabels(j), backupsv1alpha1.LabelBackupJobName)
}

// A BackupJob's applicationRef may be edited. A Backup under another name would put one cluster's data into another.
func TestC24TheBackupIsOfTheClusterThatWasStored(t *testing.T) {
	edited := job()
	edited.Spec.ApplicationRef.Name, edited.Spec.ApplicationRef.Kind = "other", "Postgres"
	request, err := BackupOf(edited, completeSnapshot(t))
	require.NoError(t, err)
	require.Equal(t, "etcd", request.ApplicationRef.Name)
	require.True(t, IsEtcdApplication(request.ApplicationRef))
	require.Equal(t, "Postgres", edited.Spec.ApplicationRef.Kind, "the job is left as it is")
}

// The API server takes 256 KiB of annotations. A spec that does not fit must not cost the backup.
func TestASpecThatDoesNotFitIsLeftOut(t *testing.T) {
	f := facts()
	f.ClusterSpec = `"` + strings.Repeat("x", 255<<10) + `"`
	s, err := NewSnapshot(SnapshotRequest{Job: job(), Cluster: "etcd", Strategy: "s", Parameters: parameters(), Destination: destination(), Facts: f})
	require.NoError(t, err)
	require.NotContains(t, s.Annotations, backupsv1alpha1.MetadataClusterSpec)
	f.ClusterSpec = ""
	require.Equal(t, f, FactsOf(s.Annotations), "all other facts are there")
}

func TestClusterSpecKeepsUnknownFieldsAndDropsBootstrap(t *testing.T) {
	spec := map[string]any{"version": "3.6.11", "future": map[string]any{"a": int64(1)}, "bootstrap": map[string]any{"restore": "x"}}
	got, err := ClusterSpec(spec)
	require.NoError(t, err)
	require.JSONEq(t, `{"version":"3.6.11","future":{"a":1}}`, got)
	require.Contains(t, spec, "bootstrap", "the caller's map is left alone")
}

func TestC18ArtifactNeedsProof(t *testing.T) {
	good, err := Artifact(completeSnapshot(t))
	require.NoError(t, err)
	require.Equal(t, int64(20512), good.SizeBytes)

	cases := map[string]struct {
		edit func(*etcdv1alpha2.EtcdSnapshot)
		want string
	}{
		"a no artifact":  {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact = nil }, "no status.artifact"},
		"b size 0":       {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.SizeBytes = 0 }, "sizeBytes"},
		"b size -1":      {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.SizeBytes = -1 }, "sizeBytes"},
		"c no checksum":  {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.Checksum = "" }, "checksum"},
		"c md5":          {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.Checksum = "md5:" + strings.Repeat("0", 64) }, "checksum"},
		"c short":        {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.Checksum = goodChecksum[:70] }, "checksum"},
		"c long":         {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.Checksum += "0" }, "checksum"},
		"d other bucket": {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.URI = "s3://other/acme/etcd/nightly-0a1b2c3d.db" }, "uri"},
		"d other prefix": {func(s *etcdv1alpha2.EtcdSnapshot) {
			s.Status.Artifact.URI = "s3://backups/acme-prod/etcd/nightly-0a1b2c3d.db"
		}, "uri"},
		"d other file": {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.URI = "s3://backups/acme/etcd/x.db" }, "uri"},
		"d empty":      {func(s *etcdv1alpha2.EtcdSnapshot) { s.Status.Artifact.URI = "" }, "uri"},
		"no S3":        {func(s *etcdv1alpha2.EtcdSnapshot) { s.Spec.Destination.S3 = nil }, "destination"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := completeSnapshot(t)
			c.edit(s)
			_, err := Artifact(s)
			require.Equal(t, backupsv1alpha1.ReasonArtifactInvalid, fault.ReasonOf(err, ""))
			require.Equal(t, fault.Terminal, fault.ClassOf(err))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func backup(t *testing.T) *backupsv1alpha1.Backup {
	t.Helper()
	r, err := BackupOf(job(), completeSnapshot(t))
	require.NoError(t, err)
	b, err := NewBackup(r)
	require.NoError(t, err)
	return b
}

func TestNewBackupHasCozystackShape(t *testing.T) {
	b := backup(t)
	require.Equal(t, "nightly", b.Name)
	require.Empty(t, b.OwnerReferences)
	require.Equal(t, backupsv1alpha1.BackupReady, b.Status.Phase)
	require.Equal(t, "plan", b.Spec.PlanRef.Name)
	require.Equal(t, StrategyRef("s"), b.Spec.StrategyRef)
	require.Equal(t, map[string]string{
		"etcd.aenix.io/bucket": "backups", "etcd.aenix.io/endpoint": "https://s3.example", "etcd.aenix.io/key": "acme/etcd/", "etcd.aenix.io/region": "",
		"etcd.aenix.io/force-path-style": "false", "etcd.aenix.io/credentials-secret-name": "creds", "etcd.aenix.io/backup-name": "nightly-0a1b2c3d",
		"cozy-etcd.io/etcd-version": "3.6.11", "cozy-etcd.io/cluster-id": "cafe", "cozy-etcd.io/cluster-uid": "u-1", "cozy-etcd.io/revision": "42",
		"cozy-etcd.io/cluster-spec": `{"version":"3.6.11"}`,
	}, b.Spec.DriverMetadata)
	require.JSONEq(t, `{"kind":"EtcdBackupSnapshot","apiVersion":"backups.cozystack.io/v1alpha1",
		"destination":{"s3":{"bucket":"backups","endpoint":"https://s3.example","key":"acme/etcd/","credentialsSecretRef":{"name":"creds"}}},
		"parameters":{"host":"s3.example","bucket":"backups","install":"prod"}}`, string(b.Status.UnderlyingResources.Raw))
}

func TestUnknownFactsLeaveNoKeys(t *testing.T) {
	require.Empty(t, Facts{}.Metadata())
}

// What is written is what is read.
func TestBackupRoundTrip(t *testing.T) {
	raw, err := json.Marshal(backup(t))
	require.NoError(t, err)
	var again backupsv1alpha1.Backup
	require.NoError(t, json.Unmarshal(raw, &again))
	got, err := RestoreSource(&again)
	require.NoError(t, err)
	require.Equal(t, S3Object{
		Endpoint: "https://s3.example", Bucket: "backups", Key: "acme/etcd/nightly-0a1b2c3d.db", CredentialsSecretName: "creds", SizeBytes: 20512, Checksum: goodChecksum,
	}, got)
	require.Equal(t, "s3://backups/acme/etcd/nightly-0a1b2c3d.db", got.URI())
	require.Equal(t, got.Key, got.Location().Key)
}
