package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/writes"
)

// future is a field that our Go types do not have, in spec and status of every kind.
const future = "futureField"

func TestOurCRDsKeepUnknownFields(t *testing.T)   { keepsUnknownFields(t, ourCRDs()...) }
func TestUpstreamKeepsUnknownFields(t *testing.T) { keepsUnknownFields(t, upstreamCRDs(t)) }

// keepsUnknownFields runs on CRDs of a later day: the controller's own writes keep what its types do not know, and a typed
// update, as the control, loses it. That is why the controller only patches.
func keepsUnknownFields(t *testing.T, dirs ...string) {
	s, err := serve(withFutureField(t, dirs...))
	require.NoError(t, err)
	t.Cleanup(s.stop)
	for name, base := range bases(t) {
		t.Run(name, func(t *testing.T) {
			for way, want := range map[string]bool{"patch": true, "update": false} {
				obj := createWithFuture(t, s, base)
				typed := readTyped(t, s, obj)
				require.NoError(t, writeTyped(t.Context(), s.client, typed, way))
				require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
				require.Equal(t, "changed", obj.GetAnnotations()["way"])
				_, inSpec, _ := unstructured.NestedString(obj.Object, "spec", future)
				require.Equal(t, want, inSpec, "%s: spec.%s", way, future)
				_, inStatus, _ := unstructured.NestedString(obj.Object, "status", future)
				require.Equal(t, want, inStatus, "%s: status.%s", way, future)
			}
		})
	}
	t.Run("backup that gets its status", func(t *testing.T) { keepingABackup(t, s) })
}

// keepingABackup lets the controller write the status of a Backup that somebody else has added to.
func keepingABackup(t *testing.T, s *server) {
	base := merged(t, bases(t)["backup"], `{spec: {driverMetadata: {etcd.aenix.io/backup-name: snapshot}}, status: {phase: Pending, artifact: null, conditions: null}}`)
	obj := createWithFuture(t, s, base)
	request := backupstrategy.BackupRequest{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), Snapshot: "snapshot", Strategy: "strategy", TakenAt: metav1.Now(),
		Artifact: backupsv1alpha1.BackupArtifact{URI: "s3://backups/a/b/snapshot.db", SizeBytes: 20512},
	}
	require.NoError(t, writes.Keep(t.Context(), s.client, request))
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	require.Equal(t, string(backupsv1alpha1.BackupReady), phase)
	for _, part := range []string{"spec", "status"} {
		_, there, _ := unstructured.NestedString(obj.Object, part, future)
		require.True(t, there, "%s.%s", part, future)
	}
}

func createWithFuture(t *testing.T, s *server, base *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	obj := s.fresh(t, base)
	require.NoError(t, unstructured.SetNestedField(obj.Object, "x", "spec", future))
	require.NoError(t, unstructured.SetNestedField(obj.Object, "x", "status", future))
	require.NoError(t, s.client.Create(t.Context(), obj))
	if hasStatusSubresource(obj) {
		before := obj.DeepCopy()
		if status, ok := base.Object["status"]; ok {
			obj.Object["status"] = runtime.DeepCopyJSONValue(status)
		}
		require.NoError(t, unstructured.SetNestedField(obj.Object, "x", "status", future))
		require.NoError(t, s.client.Status().Patch(t.Context(), obj, client.MergeFrom(before)))
	}
	return obj
}

func hasStatusSubresource(obj *unstructured.Unstructured) bool { return obj.GetKind() != "Backup" }

func readTyped(t *testing.T, s *server, obj *unstructured.Unstructured) client.Object {
	t.Helper()
	made, err := s.client.Scheme().New(obj.GroupVersionKind())
	require.NoError(t, err)
	typed, ok := made.(client.Object)
	require.True(t, ok)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(obj), typed))
	return typed
}

// writeTyped changes an annotation of the object, and writes object and status.
func writeTyped(ctx context.Context, c client.Client, typed client.Object, way string) error {
	before, ok := typed.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", typed)
	}
	typed.SetAnnotations(map[string]string{"way": "changed"})
	touchStatus(typed)
	if way == "update" {
		if err := c.Update(ctx, typed); err != nil {
			return err
		}
		touchStatus(typed)
		return client.IgnoreNotFound(c.Status().Update(ctx, typed))
	}
	if err := c.Patch(ctx, typed, client.MergeFrom(before)); err != nil {
		return err
	}
	before, _ = typed.DeepCopyObject().(client.Object)
	touchStatus(typed)
	if err := writes.SaveStatus(ctx, c, before, typed); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// touchStatus sets a condition on the kinds whose status is ours to write.
func touchStatus(obj client.Object) {
	var conditions *[]metav1.Condition
	switch o := obj.(type) {
	case *backupsv1alpha1.BackupClass:
		conditions = &o.Status.Conditions
	case *backupsv1alpha1.BackupJob:
		conditions = &o.Status.Conditions
	case *backupsv1alpha1.Backup:
		conditions = &o.Status.Conditions
	case *backupsv1alpha1.Plan:
		conditions = &o.Status.Conditions
	case *backupsv1alpha1.RestoreJob:
		conditions = &o.Status.Conditions
	case *strategyv1alpha1.Etcd:
		conditions = &o.Status.Conditions
	default:
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Touched"})
}

// withFutureField copies the CRDs into a folder and adds the field to each.
func withFutureField(t *testing.T, dirs ...string) string {
	t.Helper()
	out := t.TempDir()
	for name, crd := range crds(t, dirs...) {
		for i := range crd.Spec.Versions {
			top := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties
			for _, part := range []string{"spec", "status"} {
				schema := top[part]
				if schema.Properties == nil {
					schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
				}
				schema.Properties[future] = apiextensionsv1.JSONSchemaProps{Type: "string"}
				top[part] = schema
			}
		}
		crd.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		content, err := sigsyaml.Marshal(crd)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(out, name+".yaml"), content, 0o600))
	}
	return out
}
