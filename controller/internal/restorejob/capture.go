package restorejob

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// defaultDeadlineSeconds is the operator's default of spec.progressDeadlineSeconds.
const defaultDeadlineSeconds = 600

var clusterKind = etcdv1alpha2.GroupVersion.WithKind("EtcdCluster")

// captureOf keeps everything of an EtcdCluster that somebody wrote: spec, labels, annotations, owners and who owns which field. What the API server or an
// earlier restore made is left out.
func captureOf(live *unstructured.Unstructured) map[string]any {
	u := live.DeepCopy()
	metadata := map[string]any{"name": u.GetName(), "namespace": u.GetNamespace()}
	annotations := u.GetAnnotations()
	delete(annotations, backupsv1alpha1.AnnotationRestoredBy)
	u.SetAnnotations(annotations)
	for _, field := range []string{"labels", "annotations", "ownerReferences", "managedFields"} {
		if value, found, err := unstructured.NestedFieldNoCopy(u.Object, "metadata", field); found && err == nil && value != nil {
			metadata[field] = value
		}
	}
	return map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": metadata, "spec": u.Object["spec"]}
}

// sameCapture tells whether a live cluster is still what was captured. Managed fields do not count: they change with each status update.
func sameCapture(live *unstructured.Unstructured, captured map[string]any) bool {
	now, then := captureOf(live), runtime.DeepCopyJSON(captured)
	unstructured.RemoveNestedField(now, "metadata", "managedFields")
	unstructured.RemoveNestedField(then, "metadata", "managedFields")
	return reflect.DeepEqual(normal(now), normal(then))
}

// normal gives numbers the one form that JSON has for them.
func normal(object map[string]any) map[string]any {
	raw, err := json.Marshal(object)
	if err != nil {
		return object
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return object
	}
	return out
}

// recreated builds the EtcdCluster that takes the captured one's place: the same but for the source of its data, a deadline that lasts, and our mark.
func recreated(r *record.Record) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(r.Cluster)}
	u.SetGroupVersionKind(clusterKind)
	u.SetNamespace(r.Job.Namespace)
	u.SetName(r.Application)
	u.SetManagedFields(nil)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[backupsv1alpha1.AnnotationRestoredBy] = string(r.Job.UID)
	u.SetAnnotations(annotations)
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		u.Object["spec"] = spec
	}
	spec["bootstrap"] = map[string]any{"restore": map[string]any{"source": map[string]any{"s3": s3Location(r.Start())}}}
	if deadline, raised := raisedDeadline(r); raised {
		spec["progressDeadlineSeconds"] = deadline
	}
	return u
}

func s3Location(s record.Source) map[string]any {
	location := map[string]any{
		"endpoint": s.Endpoint, "bucket": s.Bucket, "key": s.Key, "credentialsSecretRef": map[string]any{"name": s.CredentialsSecretName},
	}
	if s.Region != "" {
		location["region"] = s.Region
	}
	if s.ForcePathStyle {
		location["forcePathStyle"] = true
	}
	return location
}

// capturedDeadline is spec.progressDeadlineSeconds as captured.
func capturedDeadline(r *record.Record) (seconds int64, set bool) {
	return number(r.Cluster, "spec", "progressDeadlineSeconds")
}

// raisedDeadline is the deadline that the operator needs for the time of the restore: it gives up for good on a seed that it has not discovered in time.
func raisedDeadline(r *record.Record) (seconds int64, raised bool) {
	captured, set := capturedDeadline(r)
	if !set {
		captured = defaultDeadlineSeconds
	}
	return r.TimeoutSeconds, r.TimeoutSeconds > captured
}

// deadlineRaised tells that a cluster still carries the deadline of this restore.
func deadlineRaised(live *unstructured.Unstructured, r *record.Record) bool {
	want, raised := raisedDeadline(r)
	got, set := number(live.Object, "spec", "progressDeadlineSeconds")
	return raised && set && got == want
}

// number reads a whole number that JSON may have given another Go type.
func number(object map[string]any, path ...string) (int64, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	if !found || err != nil {
		return 0, false
	}
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}
