package backupjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func TestBackup(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")

	s.pass(j)
	require.Equal(t, s.now.UTC(), j.Status.StartedAt.UTC())
	require.Empty(t, s.snapshots(), "startedAt is saved before anything is made")

	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonSnapshotRunning, "EtcdSnapshot")
	snapshot := s.snapshot(j)
	require.True(t, metav1.IsControlledBy(snapshot, j))
	require.Equal(t, etcdv1alpha2.S3Location{
		Endpoint: "https://s3.example", Bucket: "backups", Key: "prod/" + s.namespace + "/etcd/", Region: "us-east-1", ForcePathStyle: true,
		CredentialsSecretRef: corev1.LocalObjectReference{Name: "creds"},
	}, *snapshot.Spec.Destination.S3)

	started := *j.Status.StartedAt
	s.now = s.now.Add(5 * time.Second)
	s.complete(snapshot)
	s.rest(j)
	s.requireSucceeded(j)
	require.Equal(t, started, *j.Status.StartedAt)
	require.Equal(t, s.now.UTC(), j.Status.CompletedAt.UTC())

	b := s.backup("nightly")
	require.Empty(t, b.OwnerReferences)
	require.Equal(t, backupstrategy.StrategyRef(s.class), b.Spec.StrategyRef)
	require.Equal(t, "3.6.11", b.Spec.DriverMetadata[backupsv1alpha1.MetadataEtcdVersion])
	require.Equal(t, "3fcee40164b50008", b.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterID])
	require.Equal(t, "42", b.Spec.DriverMetadata[backupsv1alpha1.MetadataRevision])
	require.Contains(t, b.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterSpec], `"progressDeadlineSeconds":600`)
	require.Equal(t, snapshot.CreationTimestamp.Unix(), b.Spec.TakenAt.Unix())
	source, err := backupstrategy.RestoreSource(b)
	require.NoError(t, err)
	require.Equal(t, "s3://backups/prod/"+s.namespace+"/etcd/"+snapshot.Name+".db", source.URI())
	require.Equal(t, checksum, source.Checksum)

	trusted, err := backupstrategy.TrustedSource(b, backupstrategy.Trust{
		Strategy: s.strategyObject(), Classes: []backupsv1alpha1.BackupClass{*s.classObject(backupstrategy.StrategyRef(s.class))},
		Application: backupstrategy.Application(j.Spec.ApplicationRef, s.namespace, nil),
	})
	require.NoError(t, err)
	require.Equal(t, source, trusted)

	require.Len(t, s.recorder.Events, 1)
	require.Contains(t, <-s.recorder.Events, backupsv1alpha1.ReasonSucceeded)
}

func TestBackupWithoutAnAnswerFromEtcd(t *testing.T) {
	s := newStage(t)
	s.r.Etcd = silent{}
	j := s.job("nightly")
	s.rest(j)
	s.complete(s.snapshot(j))
	s.rest(j)
	s.requireSucceeded(j)
	m := s.backup("nightly").Spec.DriverMetadata
	require.NotContains(t, m, backupsv1alpha1.MetadataEtcdVersion)
	require.NotContains(t, m, backupsv1alpha1.MetadataRevision)
	require.Equal(t, "aaaa", m[backupsv1alpha1.MetadataClusterID])
	require.Contains(t, m, backupsv1alpha1.MetadataClusterSpec)
}

func TestForeignStrategyIsLeftAlone(t *testing.T) {
	s := newStage(t)
	class := s.classObject(backupstrategy.StrategyRef(s.class))
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	other := "strategies.other.example"
	class.Spec.Strategies[0].StrategyRef.APIGroup = &other
	require.NoError(t, s.Update(t.Context(), class))
	j := s.job("nightly")
	before := j.ResourceVersion
	s.rest(j)
	require.Equal(t, before, j.ResourceVersion)
}

// C17d: nobody else goes on with a run that was started here and still waits when its class is repointed.
func TestC17dClassIsRepointedWhileTheRunWaits(t *testing.T) {
	s := newStage(t)
	require.NoError(t, s.Delete(t.Context(), s.credentials()))
	j := s.job("nightly")
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForCredentials, "creds")
	other := "strategies.other.example"
	s.editClass(func(c *backupsv1alpha1.BackupClass) { c.Spec.Strategies[0].StrategyRef.APIGroup = &other })
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonStrategyKindUnsupported, "another driver")
}

func TestDeletingAJobKeepsTheBackup(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.rest(j)
	snapshot := s.snapshot(j)
	s.complete(snapshot)
	s.rest(j)
	s.requireSucceeded(j)
	require.NoError(t, s.Delete(t.Context(), j, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	require.Eventually(t, func() bool { return len(s.snapshots()) == 0 }, 20*time.Second, 50*time.Millisecond, "the snapshot goes with its job")
	require.Equal(t, backupsv1alpha1.BackupReady, s.backup("nightly").Status.Phase)
}

// C21: a job of the same name, made again, can neither overwrite the object nor the Backup of the first.
func TestC21NameUsedAgain(t *testing.T) {
	s := newStage(t)
	first := s.job("nightly")
	s.rest(first)
	s.complete(s.snapshot(first))
	s.rest(first)
	uri := s.backup("nightly").Status.Artifact.URI
	require.NoError(t, s.Delete(t.Context(), first))

	second := s.job("nightly")
	require.NotEqual(t, backupstrategy.SnapshotName(first), backupstrategy.SnapshotName(second))
	s.rest(second)
	s.requireFailed(second, backupsv1alpha1.ReasonBackupExists, "nightly")
	require.Equal(t, uri, s.backup("nightly").Status.Artifact.URI)
	require.Empty(t, s.snapshot(second).Name, "nothing was stored for it")
}

// C18: without proof there is no Ready Backup.
func TestC18ArtifactWithoutProof(t *testing.T) {
	cases := map[string]func(*etcdv1alpha2.EtcdSnapshotStatus){
		"a no artifact":  func(st *etcdv1alpha2.EtcdSnapshotStatus) { st.Artifact = nil },
		"b size 0":       func(st *etcdv1alpha2.EtcdSnapshotStatus) { st.Artifact.SizeBytes = 0 },
		"c no checksum":  func(st *etcdv1alpha2.EtcdSnapshotStatus) { st.Artifact.Checksum = "" },
		"d other bucket": func(st *etcdv1alpha2.EtcdSnapshotStatus) { st.Artifact.URI = "s3://other/x.db" },
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			j := s.job("nightly")
			s.rest(j)
			s.complete(s.snapshot(j), edit)
			s.rest(j)
			s.requireFailed(j, backupsv1alpha1.ReasonArtifactInvalid, "EtcdSnapshot")
			require.Empty(t, s.backups())
			require.NotEmpty(t, s.snapshot(j).Name, "the evidence stays")
		})
	}
}

func TestOperatorFailure(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.rest(j)
	s.phase(s.snapshot(j), etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed, "job failed: no luck")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonSnapshotFailed, "job failed: no luck")
	require.Empty(t, s.backups())
}

// C61: a snapshot that bears the job's name but belongs to somebody else is not taken for its own.
func TestC61ForeignSnapshotIsNotAdopted(t *testing.T) {
	for name, owned := range map[string]bool{"nobody": false, "another job": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			j := s.job("nightly")
			s.pass(j)
			foreign, err := backupstrategy.NewSnapshot(backupstrategy.SnapshotRequest{Job: j, Cluster: "etcd", Destination: backupstrategy.Destination{
				Endpoint: "https://evil.example", Bucket: "other", CredentialsSecretName: "x"}})
			require.NoError(t, err)
			foreign.OwnerReferences = nil
			if owned {
				foreign.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.job("other"), backupsv1alpha1.GroupVersion.WithKind("BackupJob"))}
			}
			s.create(foreign)
			s.complete(foreign)
			s.rest(j)
			s.requireFailed(j, backupsv1alpha1.ReasonSnapshotForeign, foreign.Name)
			require.Empty(t, s.backups())
		})
	}
}

// The kind has no status subresource with Cozystack. Should a cluster have one, the status is written all the same.
func TestBackupStatusSurvivesAStatusSubresource(t *testing.T) {
	s := newStage(t)
	setStatusSubresource(t, true)
	t.Cleanup(func() { setStatusSubresource(t, false) })
	j := s.job("nightly")
	s.rest(j)
	s.complete(s.snapshot(j))
	s.rest(j)
	s.requireSucceeded(j)
	require.Equal(t, checksum, s.backup("nightly").Status.Artifact.Checksum)
}

// C24: what a tenant writes into a job leads nowhere but to the tenant's own etcd.
func TestC24ForeignApplication(t *testing.T) {
	s := newStage(t)
	class := s.classObject(backupstrategy.StrategyRef(s.class))
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	class.Spec.Strategies[0].Application.Kind = "Secret"
	require.NoError(t, s.Update(t.Context(), class))
	j := &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nightly"},
		Spec:       backupsv1alpha1.BackupJobSpec{ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Secret", Name: "etcd"}, BackupClassName: s.class},
	}
	s.create(j)
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonApplicationUnsupported, "spec.applicationRef")
}

// C24: a Backup that somebody prepared under the job's name is not filled in.
func TestC24PreparedBackup(t *testing.T) {
	s := newStage(t)
	s.create(&backupsv1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nightly"},
		Spec: backupsv1alpha1.BackupSpec{
			ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "etcd"}, StrategyRef: backupstrategy.StrategyRef(s.class), TakenAt: metav1.Now(),
			DriverMetadata: map[string]string{backupsv1alpha1.MetadataBackupName: "other"},
		},
	})
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonBackupExists, "nightly")
	require.Empty(t, s.snapshots())
}
