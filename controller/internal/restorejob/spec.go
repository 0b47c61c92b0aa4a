package restorejob

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// defaultReplicas is the operator's default of spec.replicas.
const defaultReplicas = 3

var errNoSpec = errors.New("no spec to recreate the cluster from")

// findSpec looks for the spec of the cluster: in the live one, else in the record of an earlier restore that ended without a cluster, else in the Backup,
// else in the manifest of the Helm release. A spec from the Backup borrows its metadata from the manifest where that can be read.
func (r *Reconciler) findSpec(ctx context.Context, w *world) (map[string]any, string, *record.Record, error) {
	if w.cluster != nil {
		return captureOf(w.cluster), record.FromLive, nil, nil
	}
	older, err := r.Records.Older(ctx, w.job.Namespace, w.application(), w.job.UID)
	if err != nil {
		return nil, "", nil, err
	}
	if older != nil {
		return runtime.DeepCopyJSON(older.Cluster), record.FromRecord, older, nil
	}
	manifest, err := r.manifestOf(ctx, w)
	if err != nil {
		return nil, "", nil, err
	}
	switch spec := specOf(w.request.backup); {
	case spec != nil:
		return assemble(w, manifest, spec), record.FromBackup, nil, nil
	case manifest != nil:
		manifestSpec, _ := manifest["spec"].(map[string]any)
		return assemble(w, manifest, manifestSpec), record.FromRelease, nil, nil
	}
	return nil, "", nil, errNoSpec
}

// specOf reads the spec that a Backup of ours carries; nil where it carries none that can be read.
func specOf(backup *backupsv1alpha1.Backup) map[string]any {
	var spec map[string]any
	if err := utiljson.Unmarshal([]byte(backup.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterSpec]), &spec); err != nil {
		return nil
	}
	delete(spec, "bootstrap")
	return spec
}

// jsonTypes gives an object the Go types that unstructured objects hold.
func jsonTypes(object map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, utiljson.Unmarshal(raw, &out)
}

// assemble makes an object from a spec and what Helm would have added to its metadata, so that the release knows the object as its own.
func assemble(w *world, manifest, spec map[string]any) map[string]any {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(clusterKind)
	u.SetNamespace(w.job.Namespace)
	u.SetName(w.application())
	labels, annotations := map[string]string{}, map[string]string{}
	if manifest != nil {
		m := &unstructured.Unstructured{Object: manifest}
		maps.Copy(labels, m.GetLabels())
		maps.Copy(annotations, m.GetAnnotations())
	}
	if release := w.helmRelease(); release != nil {
		labels["app.kubernetes.io/managed-by"] = "Helm"
		annotations["meta.helm.sh/release-name"] = release.Name
		annotations["meta.helm.sh/release-namespace"] = release.Namespace
	}
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
	return u.Object
}
