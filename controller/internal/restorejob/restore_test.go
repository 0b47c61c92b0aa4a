package restorejob

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

func TestRestoreInPlace(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	job := g.finish("again")
	t.Logf("writes: %q", g.writes)

	require.Equal(t, backupsv1alpha1.RestoreJobSucceeded, job.Status.Phase, "%+v", job.Status)
	require.Equal(t, map[string]string{"Ready": "True/Succeeded", "Captured": "True/Captured", "Deleted": "True/FormerClusterGone", "Suspended": "False/Resumed",
		"Serving": "True/RestoredRevisionServed", "Whole": "True/AllMembersAgree"}, conditions(job))
	require.NotNil(t, job.Status.StartedAt)
	require.NotNil(t, job.Status.CompletedAt)
	require.Contains(t, job.Status.Message, "all 3 members")
	require.Empty(t, job.Finalizers)
	require.Empty(t, g.records())

	after := g.cluster()
	require.NotEqual(t, before.GetUID(), after.GetUID())
	s3, _, err := unstructured.NestedMap(after.Object, "spec", "bootstrap", "restore", "source", "s3")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"endpoint": "http://s3:9000", "bucket": "b", "key": "p/x.db", "region": "r", "forcePathStyle": true,
		"credentialsSecretRef": map[string]any{"name": "creds"}}, s3)
	require.True(t, sameCapture(withoutBootstrap(after), captureOf(before)), "everything else is as it was")
	hr := g.helmRelease()
	require.Equal(t, []string{"tests/helm"}, hr.GetFinalizers())
	require.Empty(t, hr.GetAnnotations())
	_, set, _ := unstructured.NestedBool(hr.Object, "spec", "suspend")
	require.False(t, set, "the field is absent again")
}

func conditions(job *backupsv1alpha1.RestoreJob) map[string]string {
	all := map[string]string{}
	for _, c := range job.Status.Conditions {
		all[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return all
}

func withoutBootstrap(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "spec", "bootstrap")
	return u
}
