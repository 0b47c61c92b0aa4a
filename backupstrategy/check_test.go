package backupstrategy

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
)

func TestC23CheckBeforeAnyJob(t *testing.T) {
	cases := map[string]struct {
		edit func(*strategyv1alpha1.Etcd, *backupsv1alpha1.BackupClass)
		want string // empty: no problem
	}{
		"valid":      {func(*strategyv1alpha1.Etcd, *backupsv1alpha1.BackupClass) {}, ""},
		"no row yet": {func(_ *strategyv1alpha1.Etcd, c *backupsv1alpha1.BackupClass) { c.Spec.Strategies = nil }, ""},
		"row of another strategy": {func(_ *strategyv1alpha1.Etcd, c *backupsv1alpha1.BackupClass) {
			c.Spec.Strategies[0].StrategyRef.Name, c.Spec.Strategies[0].Parameters = "other", nil
		}, ""},
		"a field of the application": {func(s *strategyv1alpha1.Etcd, _ *backupsv1alpha1.BackupClass) {
			s.Spec.Template.Destination.S3.Key = "{{ .Application.spec.folder }}"
		}, ""},
		"syntax": {func(s *strategyv1alpha1.Etcd, c *backupsv1alpha1.BackupClass) {
			s.Spec.Template.Destination.S3.Region, c.Spec.Strategies = "{{ .Parameters.", nil
		}, "s3.region"},
		"parameter": {func(_ *strategyv1alpha1.Etcd, c *backupsv1alpha1.BackupClass) {
			delete(c.Spec.Strategies[0].Parameters, "bucket")
		},
			`BackupClass "daily", spec.strategies[0]: spec.template.destination.s3.bucket: the template wants .Parameters.bucket`},
		"destination": {func(_ *strategyv1alpha1.Etcd, c *backupsv1alpha1.BackupClass) {
			c.Spec.Strategies[0].Parameters["host"] = "s3.example/path"
		}, "path"},
		"a place of everybody": {func(s *strategyv1alpha1.Etcd, _ *backupsv1alpha1.BackupClass) {
			s.Spec.Template.Destination.S3.Key = "shared/{{ .Application.metadata.name }}/"
		}, `spec.template.destination.s3.key renders to "shared/etcd/" for every namespace`},
		"a bucket for each namespace": {func(s *strategyv1alpha1.Etcd, _ *backupsv1alpha1.BackupClass) {
			s.Spec.Template.Destination.S3.Key, s.Spec.Template.Destination.S3.Bucket = "etcd/", "backups-{{ .Application.metadata.namespace }}"
		}, ""},
		"no store": {func(s *strategyv1alpha1.Etcd, _ *backupsv1alpha1.BackupClass) { s.Spec.Template.Destination.S3 = nil }, "is not set"},
		"annotation": {func(s *strategyv1alpha1.Etcd, _ *backupsv1alpha1.BackupClass) {
			s.Annotations = map[string]string{AnnotationFormerDestinations: "nonsense"}
		}, AnnotationFormerDestinations},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &strategyv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: strategyv1alpha1.EtcdSpec{Template: templateOf(templateS3())}}
			k := class(row(nil, "Etcd", "s", parameters()))
			c.edit(s, &k)
			got := Check(s, []backupsv1alpha1.BackupClass{k})
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0], c.want)
		})
	}
}
