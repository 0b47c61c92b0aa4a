package restorejob

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
)

func newStrategy(name string) *strategyv1alpha1.Etcd {
	s := &strategyv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Template.Destination.S3 = &strategyv1alpha1.EtcdS3{
		Bucket: "{{ .Parameters.bucket }}", Endpoint: "http://s3.example:9000", Key: "inst/{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/",
		CredentialsSecretRef: strategyv1alpha1.SecretRef{Name: "creds"},
	}
	return s
}

func newClass(name string) *backupsv1alpha1.BackupClass {
	group, strategies := "apps.cozystack.io", "strategy.backups.cozystack.io"
	return &backupsv1alpha1.BackupClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: backupsv1alpha1.BackupClassSpec{Strategies: []backupsv1alpha1.BackupClassStrategy{{
			Application: backupsv1alpha1.ApplicationSelector{APIGroup: &group, Kind: "Etcd"},
			StrategyRef: corev1.TypedLocalObjectReference{APIGroup: &strategies, Kind: "Etcd", Name: name}, Parameters: map[string]string{"bucket": "backups"},
		}}},
	}
}

func storedBackup(ns, strategy string) *backupsv1alpha1.Backup {
	b := newBackup()
	b.Spec.StrategyRef.Name = strategy
	b.Status.Artifact.URI = "s3://backups/inst/" + ns + "/etcd/x.db"
	doc := backupsv1alpha1.UnderlyingSnapshot{Kind: backupsv1alpha1.UnderlyingSnapshotKind, APIVersion: backupsv1alpha1.UnderlyingSnapshotAPIVersion}
	doc.Destination.S3 = &backupsv1alpha1.UnderlyingS3{
		Bucket: "backups", Endpoint: "http://s3.example:9000", Key: "inst/" + ns + "/etcd/", CredentialsSecretRef: corev1.LocalObjectReference{Name: "creds"},
	}
	raw, _ := json.Marshal(doc)
	b.Status.UnderlyingResources = &runtime.RawExtension{Raw: raw}
	return b
}

// What a tenant can edit in a Backup does not decide what is read: anything but the administrator's own place is refused before anything is touched.
func TestC24CoordinatesOfAnotherTenantAreRefused(t *testing.T) {
	edit := func(change func(*backupsv1alpha1.UnderlyingS3)) func(*backupsv1alpha1.Backup) {
		return func(b *backupsv1alpha1.Backup) {
			doc := backupsv1alpha1.UnderlyingSnapshot{}
			_ = json.Unmarshal(b.Status.UnderlyingResources.Raw, &doc)
			change(doc.Destination.S3)
			b.Status.UnderlyingResources.Raw, _ = json.Marshal(doc)
		}
	}
	for _, c := range []struct {
		name, reason, message string
		change                func(*backupsv1alpha1.Backup)
	}{
		{"as it was written", "", "", func(*backupsv1alpha1.Backup) {}},
		{"another tenant's object", backupsv1alpha1.ReasonDestinationMismatch, "key", func(b *backupsv1alpha1.Backup) { b.Status.Artifact.URI = "s3://backups/inst/other/etcd/x.db" }},
		{"another endpoint", backupsv1alpha1.ReasonDestinationMismatch, "endpoint", edit(func(s *backupsv1alpha1.UnderlyingS3) { s.Endpoint = "http://169.254.169.254" })},
		{"another Secret", backupsv1alpha1.ReasonDestinationMismatch, "credentials", edit(func(s *backupsv1alpha1.UnderlyingS3) { s.CredentialsSecretRef.Name = "root" })},
		{"a strategy that is gone", backupsv1alpha1.ReasonStrategyNotFound, "is gone", func(b *backupsv1alpha1.Backup) { b.Spec.StrategyRef.Name = "gone" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			require.NoError(t, g.admin.Create(t.Context(), newStrategy(g.ns)))
			require.NoError(t, g.admin.Create(t.Context(), newClass(g.ns)))
			g.tenant("again")
			require.NoError(t, g.admin.Delete(t.Context(), &backupsv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: g.ns, Name: "good"}}))
			backup := storedBackup(g.ns, g.ns)
			c.change(backup)
			g.create(backup)
			g.sources = StrategySources{Client: g.admin, Reader: g.admin}
			before := g.cluster()
			job := g.finish("again")
			if c.reason == "" {
				require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
				key, _, _ := nested(g.cluster(), "spec", "bootstrap", "restore", "source", "s3", "key")
				require.Equal(t, artifact.PreparedKey("inst/"+g.ns+"/etcd/x.db", string(job.UID)), key)
				return
			}
			require.Equal(t, "True/"+c.reason, condition(job, "Stalled"))
			require.Contains(t, job.Status.Message, c.message)
			g.untouched(before)
		})
	}
}

func TestC24AnotherTargetIsRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("first")
	require.NoError(t, g.admin.Delete(t.Context(), g.job("first")))
	before := g.cluster()
	group := "apps.cozystack.io"
	for name, ref := range map[string]corev1.TypedLocalObjectReference{
		"other-name": {APIGroup: &group, Kind: "Etcd", Name: "etcd-b"}, "other-kind": {APIGroup: &group, Kind: "Postgres", Name: "etcd"}, "other-group": {APIGroup: new("x.io"), Kind: "Etcd", Name: "etcd"},
	} {
		job := newJob(name)
		job.Spec.TargetApplicationRef = &ref
		g.create(job)
		require.Equal(t, "True/"+backupsv1alpha1.ReasonTargetUnsupported, condition(g.finish(name), "Stalled"), name)
		require.NoError(t, client.IgnoreNotFound(g.admin.Delete(t.Context(), g.job(name))))
	}
	g.untouched(before)
}
