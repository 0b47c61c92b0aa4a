package backupstrategy

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const underlying = `{"kind":"EtcdBackupSnapshot","apiVersion":"backups.cozystack.io/v1alpha1","destination":{"s3":{"bucket":"cozy-backups",
	"endpoint":"http://s3.cozy:8333/","key":"acme/etcd/","region":"us-east-1","forcePathStyle":true,"credentialsSecretRef":{"name":"cozy-backups-creds"}}}}`

// cozystackBackup is one as Cozystack's driver leaves it.
func cozystackBackup() *backupsv1alpha1.Backup {
	return &backupsv1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "acme"},
		Spec: backupsv1alpha1.BackupSpec{
			ApplicationRef: etcdRef(),
			StrategyRef:    StrategyRef("cozy-default-etcd"),
			DriverMetadata: map[string]string{
				"etcd.aenix.io/bucket": "cozy-backups", "etcd.aenix.io/endpoint": "http://s3.cozy:8333/", "etcd.aenix.io/key": "acme/etcd/",
				"etcd.aenix.io/region": "us-east-1", "etcd.aenix.io/force-path-style": "true", "etcd.aenix.io/credentials-secret-name": "cozy-backups-creds",
				"etcd.aenix.io/backup-name": "snap",
			},
		},
		Status: backupsv1alpha1.BackupStatus{
			Phase:               backupsv1alpha1.BackupReady,
			Artifact:            &backupsv1alpha1.BackupArtifact{URI: "s3://cozy-backups/acme/etcd/snap.db", SizeBytes: 7, Checksum: goodChecksum},
			UnderlyingResources: &runtime.RawExtension{Raw: []byte(underlying)},
		},
	}
}

func raw(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }

func TestRestoreSourceOrder(t *testing.T) {
	cases := map[string]struct {
		edit func(*backupsv1alpha1.Backup)
		want string // URI
	}{
		"the URI's key wins":                     {func(b *backupsv1alpha1.Backup) { b.Status.Artifact.URI = "s3://cozy-backups/elsewhere/y.db" }, "s3://cozy-backups/elsewhere/y.db"},
		"URI of another bucket: prefix and name": {func(b *backupsv1alpha1.Backup) { b.Status.Artifact.URI = "s3://other/elsewhere/y.db" }, "s3://cozy-backups/acme/etcd/snap.db"},
		"URI of another kind":                    {func(b *backupsv1alpha1.Backup) { b.Status.Artifact.URI = "pvc://claim/y.db" }, "s3://cozy-backups/acme/etcd/snap.db"},
		"no artifact":                            {func(b *backupsv1alpha1.Backup) { b.Status.Artifact = nil }, "s3://cozy-backups/acme/etcd/snap.db"},
		"underlying before metadata": {func(b *backupsv1alpha1.Backup) {
			b.Status.Artifact = nil
			b.Spec.DriverMetadata["etcd.aenix.io/key"] = "lies/"
		}, "s3://cozy-backups/acme/etcd/snap.db"},
		"metadata alone": {func(b *backupsv1alpha1.Backup) {
			b.Status.Artifact, b.Status.UnderlyingResources = nil, nil
			b.Spec.DriverMetadata["etcd.aenix.io/key"] = "meta"
		}, "s3://cozy-backups/meta/snap.db"},
		"underlying null": {func(b *backupsv1alpha1.Backup) { b.Status.UnderlyingResources = raw("null") }, "s3://cozy-backups/acme/etcd/snap.db"},
		"trailing slashes are trimmed before joining": {func(b *backupsv1alpha1.Backup) {
			b.Status.Artifact, b.Status.UnderlyingResources = nil, nil
			b.Spec.DriverMetadata["etcd.aenix.io/key"] = "meta//"
		}, "s3://cozy-backups/meta/snap.db"},
		"a leading slash stays": {func(b *backupsv1alpha1.Backup) {
			b.Status.Artifact, b.Status.UnderlyingResources = nil, nil
			b.Spec.DriverMetadata["etcd.aenix.io/key"] = "/meta"
		}, "s3://cozy-backups//meta/snap.db"},
		"no prefix": {func(b *backupsv1alpha1.Backup) {
			b.Status.Artifact, b.Status.UnderlyingResources = nil, nil
			delete(b.Spec.DriverMetadata, "etcd.aenix.io/key")
		}, "s3://cozy-backups/snap.db"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := cozystackBackup()
			c.edit(b)
			got, err := RestoreSource(b)
			require.NoError(t, err)
			require.Equal(t, c.want, got.URI())
			require.True(t, got.ForcePathStyle)
			require.Equal(t, "cozy-backups-creds", got.CredentialsSecretName)
		})
	}
}

func TestRestoreSourceRefuses(t *testing.T) {
	cases := map[string]func(*backupsv1alpha1.Backup){
		"unknown kind": func(b *backupsv1alpha1.Backup) {
			b.Status.UnderlyingResources = raw(`{"kind":"Other","apiVersion":"backups.cozystack.io/v1alpha1"}`)
		},
		"unknown apiVersion": func(b *backupsv1alpha1.Backup) {
			b.Status.UnderlyingResources = raw(`{"kind":"EtcdBackupSnapshot","apiVersion":"backups.cozystack.io/v2"}`)
		},
		"empty document": func(b *backupsv1alpha1.Backup) { b.Status.UnderlyingResources = raw(`{}`) },
		"not JSON":       func(b *backupsv1alpha1.Backup) { b.Status.UnderlyingResources = raw(`"x`) },
		"no bucket": func(b *backupsv1alpha1.Backup) {
			b.Status.UnderlyingResources = raw(`{"kind":"EtcdBackupSnapshot","apiVersion":"backups.cozystack.io/v1alpha1","destination":{}}`)
		},
		"nothing at all": func(b *backupsv1alpha1.Backup) { b.Status.UnderlyingResources, b.Spec.DriverMetadata = nil, nil },
		"no name": func(b *backupsv1alpha1.Backup) {
			b.Status.Artifact = nil
			delete(b.Spec.DriverMetadata, "etcd.aenix.io/backup-name")
		},
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			b := cozystackBackup()
			edit(b)
			_, err := RestoreSource(b)
			require.Equal(t, backupsv1alpha1.ReasonBackupUnreadable, fault.ReasonOf(err, ""))
			require.Equal(t, fault.Terminal, fault.ClassOf(err))
		})
	}
	b := cozystackBackup()
	b.Spec.StrategyRef.Kind = "Postgres"
	_, err := RestoreSource(b)
	require.Equal(t, backupsv1alpha1.ReasonStrategyKindUnsupported, fault.ReasonOf(err, ""))
}

func trust() Trust {
	return Trust{
		Strategy: &strategyv1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Name: "cozy-default-etcd"},
			Spec: strategyv1alpha1.EtcdSpec{Template: templateOf(&strategyv1alpha1.EtcdS3{
				Endpoint: "http://s3.cozy:8333", Bucket: "{{ .Parameters.bucket }}", Key: "{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/",
				Region: "us-east-1", ForcePathStyle: true, CredentialsSecretRef: strategyv1alpha1.SecretRef{Name: "cozy-backups-creds"},
			})},
		},
		Classes: []backupsv1alpha1.BackupClass{
			class(row(nil, "Etcd", "another", nil), row(nil, "Etcd", "cozy-default-etcd", map[string]string{"bucket": "elsewhere"})),
			class(row(nil, "Etcd", "cozy-default-etcd", map[string]string{"bucket": "cozy-backups"})),
		},
		Application: application("acme"),
	}
}

func TestTrustedSource(t *testing.T) {
	got, err := TrustedSource(cozystackBackup(), trust())
	require.NoError(t, err)
	require.Equal(t, S3Object{
		Endpoint: "http://s3.cozy:8333", Bucket: "cozy-backups", Key: "acme/etcd/snap.db", Region: "us-east-1", ForcePathStyle: true,
		CredentialsSecretName: "cozy-backups-creds", SizeBytes: 7, Checksum: goodChecksum,
	}, got)
}

func TestTrustedSourceTakesRegionAndStyleFromTheAdministrator(t *testing.T) {
	b := cozystackBackup()
	b.Status.UnderlyingResources = nil
	b.Spec.DriverMetadata["etcd.aenix.io/region"] = "moon"
	b.Spec.DriverMetadata["etcd.aenix.io/force-path-style"] = "false"
	got, err := TrustedSource(b, trust())
	require.NoError(t, err)
	require.Equal(t, "us-east-1", got.Region)
	require.True(t, got.ForcePathStyle)
}

func TestC24EditedCoordinatesAreRefused(t *testing.T) {
	metadataOnly := func(key, value string) func(*backupsv1alpha1.Backup, *Trust) {
		return func(b *backupsv1alpha1.Backup, _ *Trust) {
			b.Status.Artifact, b.Status.UnderlyingResources = nil, nil
			b.Spec.DriverMetadata[key] = value
		}
	}
	cases := map[string]struct {
		edit func(*backupsv1alpha1.Backup, *Trust)
		want string
	}{
		"URI of another tenant": {func(b *backupsv1alpha1.Backup, _ *Trust) { b.Status.Artifact.URI = "s3://cozy-backups/other/etcd/x.db" }, "key is"},
		"URI deeper than the prefix": {func(b *backupsv1alpha1.Backup, _ *Trust) {
			b.Status.Artifact.URI = "s3://cozy-backups/acme/etcd/x/y.db"
		}, "key is"},
		"URI above the prefix": {func(b *backupsv1alpha1.Backup, _ *Trust) { b.Status.Artifact.URI = "s3://cozy-backups/acme/x.db" }, "key is"},
		"URI with dots": {func(b *backupsv1alpha1.Backup, _ *Trust) {
			b.Status.Artifact.URI = "s3://cozy-backups/acme/etcd/../../other/etcd/x.db"
		}, ".."},
		"URI of no snapshot": {func(b *backupsv1alpha1.Backup, _ *Trust) {
			b.Status.Artifact.URI = "s3://cozy-backups/acme/etcd/secret.txt"
		}, "key is"},
		"prefix":                   {metadataOnly("etcd.aenix.io/key", "other/etcd"), "key is"},
		"name with a slash":        {metadataOnly("etcd.aenix.io/backup-name", "../../other/etcd/x"), ".."},
		"credentials":              {metadataOnly("etcd.aenix.io/credentials-secret-name", "kube-admin"), "credentials Secret name"},
		"endpoint":                 {metadataOnly("etcd.aenix.io/endpoint", "http://169.254.169.254"), "endpoint is"},
		"endpoint with a password": {metadataOnly("etcd.aenix.io/endpoint", "http://u:hunter2@s3.cozy:8333"), "not a valid URL"},
		"bucket":                   {metadataOnly("etcd.aenix.io/bucket", "other"), "bucket is"},
		"no row points here":       {func(_ *backupsv1alpha1.Backup, t *Trust) { t.Classes = nil }, "no BackupClass row"},
		"row for another kind": {func(_ *backupsv1alpha1.Backup, t *Trust) {
			t.Classes = []backupsv1alpha1.BackupClass{class(row(nil, "Postgres", "cozy-default-etcd", map[string]string{"bucket": "cozy-backups"}))}
		}, "no BackupClass row"},
		"row that does not render": {func(_ *backupsv1alpha1.Backup, t *Trust) {
			t.Classes = []backupsv1alpha1.BackupClass{class(row(nil, "Etcd", "cozy-default-etcd", nil))}
		}, `"bucket"`},
		"another strategy":  {func(b *backupsv1alpha1.Backup, _ *Trust) { b.Spec.StrategyRef.Name = "another" }, "spec.strategyRef"},
		"another namespace": {func(_ *backupsv1alpha1.Backup, t *Trust) { t.Application = application("acme-prod") }, "key is"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, tr := cozystackBackup(), trust()
			c.edit(b, &tr)
			_, err := TrustedSource(b, tr)
			require.Equal(t, backupsv1alpha1.ReasonDestinationMismatch, fault.ReasonOf(err, ""))
			require.Equal(t, fault.Terminal, fault.ClassOf(err))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestFormerDestinations(t *testing.T) {
	former := `[{"endpoint":"http://old:8333","bucket":"old-bucket","key":"{{ .Application.metadata.namespace }}","credentialsSecretRef":{"name":"old-creds"}}]`
	b := cozystackBackup()
	b.Status.Artifact, b.Status.UnderlyingResources = nil, nil
	for key, value := range map[string]string{"endpoint": "http://OLD:8333/", "bucket": "old-bucket", "key": "acme/", "credentials-secret-name": "old-creds"} {
		b.Spec.DriverMetadata["etcd.aenix.io/"+key] = value
	}
	tr := trust()
	_, err := TrustedSource(b, tr)
	require.Error(t, err)

	tr.Strategy.Annotations = map[string]string{AnnotationFormerDestinations: former}
	got, err := TrustedSource(b, tr)
	require.NoError(t, err)
	require.Equal(t, "http://old:8333", got.Endpoint)

	tr.Classes = nil
	_, err = TrustedSource(b, tr)
	require.NoError(t, err, "a former place outlives the rows")
	_, err = TrustedSource(cozystackBackup(), tr)
	require.ErrorContains(t, err, AnnotationFormerDestinations, "the present template does not count without a row")

	tr.Application = application("other")
	_, err = TrustedSource(b, tr)
	require.ErrorContains(t, err, "key is")

	tr.Strategy.Annotations[AnnotationFormerDestinations] = "{"
	_, err = TrustedSource(b, tr)
	require.ErrorContains(t, err, "JSON array")
}

// Cozystack accepts keys that we would not write; what it stored below them can be read.
func TestTrustedSourceReadsWhatCozystackWrote(t *testing.T) {
	for _, key := range []string{"/acme", "acme//", "a//b"} {
		b, tr := cozystackBackup(), trust()
		tr.Strategy.Spec.Template.Destination.S3.Key = key
		b.Status.UnderlyingResources, b.Status.Artifact = nil, nil
		b.Spec.DriverMetadata["etcd.aenix.io/key"] = key
		_, err := TrustedSource(b, tr)
		require.NoError(t, err, key)
	}
}
