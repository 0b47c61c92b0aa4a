package backupjob

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// setStatusSubresource switches the status subresource of Backup and waits until the API server acts accordingly.
func setStatusSubresource(t *testing.T, on bool) {
	t.Helper()
	ctx := context.Background()
	c := platform(t).Client
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: "backups.backups.cozystack.io"}, crd))
	crd.Spec.Versions[0].Subresources = nil
	if on {
		crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	require.NoError(t, c.Update(ctx, crd))
	probe := &backupsv1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"},
		Spec: backupsv1alpha1.BackupSpec{
			ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "etcd"}, StrategyRef: backupstrategy.StrategyRef("x"), TakenAt: metav1.Now(),
		},
	}
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(ctx, probe)))
	require.Eventually(t, func() bool {
		served := c.SubResource("status").Get(ctx, probe, &backupsv1alpha1.Backup{}) == nil
		return served == on
	}, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, c.Delete(ctx, probe))
}

// serveApplications installs a stand-in for Cozystack's application API.
func serveApplications(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	c := platform(t).Client
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "etcds.apps.cozystack.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "apps.cozystack.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "etcds", Singular: "etcd", Kind: "Etcd", ListKind: "EtcdList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
	require.NoError(t, c.Create(ctx, crd))
	t.Cleanup(func() { _ = c.Delete(ctx, crd) })
	require.Eventually(t, func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(applicationGVK)
		return c.List(ctx, list) == nil
	}, 20*time.Second, 50*time.Millisecond)
}

func TestApplicationFromCozystacksAPI(t *testing.T) {
	s := newStage(t)
	serveApplications(t)
	require.Eventually(t, func() bool { return served(platform(t).Client.RESTMapper(), applicationGVK) }, 10*time.Second, 50*time.Millisecond)
	s.r.apps = true
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonApplicationNotFound, `"etcd"`)

	odd := &backupsv1alpha1.BackupJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "odd"}, Spec: j.Spec}
	odd.Spec.ApplicationRef.Name = "a/b"
	s.create(odd)
	s.rest(odd)
	s.requireFailed(odd, backupsv1alpha1.ReasonApplicationNotFound, `"a/b"`)

	strategy := s.strategyObject()
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(strategy), strategy))
	strategy.Spec.Template.Destination.S3.Key = "{{ .Application.metadata.namespace }}/{{ .Application.metadata.labels.tier }}"
	require.NoError(t, s.Update(t.Context(), strategy))
	application := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "4Gi"}}}
	application.SetGroupVersionKind(applicationGVK)
	application.SetNamespace(s.namespace)
	application.SetName("etcd")
	application.SetLabels(map[string]string{"tier": "gold"})
	s.create(application)
	other := s.job("other")
	s.rest(other)
	require.Equal(t, s.namespace+"/gold/", s.snapshot(other).Spec.Destination.S3.Key)
}

func TestServed(t *testing.T) {
	mapper := platform(t).Client.RESTMapper()
	require.True(t, served(mapper, backupsv1alpha1.GroupVersion.WithKind("BackupJob")))
	require.False(t, served(mapper, backupsv1alpha1.GroupVersion.WithKind("Nothing")))
}
