package restorejob

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// leftSuspended tells that a restore suspended the release, and nobody has lifted that since. The mark alone does not: flux resume leaves it behind, and with it
// a later suspension would count as ours. Who set spec.suspend last, the API server knows.
func leftSuspended(release *unstructured.Unstructured) bool {
	if release.GetAnnotations()[backupsv1alpha1.AnnotationSuspendedBy] == "" {
		return false
	}
	return slices.ContainsFunc(release.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		if e.Manager != FieldManager || e.Subresource != "" || e.FieldsV1 == nil {
			return false
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields)
		return err == nil && fields.Spec["f:suspend"] != nil
	})
}

// suspend pauses the release and takes hold of it in one patch: finalizer, suspension, and the mark that says whose suspension it is. A release that
// somebody else had suspended gets no mark, so nothing ever lifts that suspension.
func (r *Reconciler) suspend(ctx context.Context, w *world) error {
	by := w.job.UID
	if w.seen.Record.WasSuspended {
		by = ""
	}
	return r.patchRelease(ctx, w, Suspension(w.release.object.GetFinalizers(), by, w.seen.Release.Suspended), "suspend")
}

// Suspension is the patch that pauses a release with these finalizers, marked as that of a restore; without a UID the suspension was somebody else's before.
func Suspension(finalizers []string, by types.UID, suspended bool) map[string]any {
	if !slices.Contains(finalizers, backupsv1alpha1.RestoreFinalizer) {
		finalizers = append(slices.Clone(finalizers), backupsv1alpha1.RestoreFinalizer)
	}
	mark := map[string]any{backupsv1alpha1.AnnotationSuspendedBy: string(by)}
	if by == "" {
		mark[backupsv1alpha1.AnnotationSuspendedBy] = nil // of a restore whose suspension was lifted since
	}
	patch := map[string]any{"metadata": map[string]any{"finalizers": finalizers, "annotations": mark}}
	if by != "" || !suspended {
		patch["spec"] = map[string]any{"suspend": true}
	}
	return patch
}

// resume is the one place that undoes a suspension. It lifts exactly what carries this job's mark, back to the value that was recorded.
func (r *Reconciler) resume(ctx context.Context, w *world) error {
	metadata := map[string]any{"finalizers": w.otherFinalizers()}
	patch := map[string]any{"metadata": metadata}
	if w.seen.Release.Marked {
		metadata["annotations"] = map[string]any{backupsv1alpha1.AnnotationSuspendedBy: nil}
		patch["spec"] = map[string]any{"suspend": w.priorSuspension()}
	}
	if w.record.Left != "" && w.seen.Release.Deleting {
		r.Events.Eventf(w.job, nil, corev1.EventTypeWarning, backupsv1alpha1.ReasonUninstallLeft, "Restore", "%s", bound(w.record.Left))
	}
	return r.patchRelease(ctx, w, patch, "resume")
}

// priorSuspension is spec.suspend as it was recorded; nil means absent.
func (w *world) priorSuspension() any {
	if release := w.record.Release; release != nil && release.Suspend != nil {
		return *release.Suspend
	}
	return nil
}

// leaveSuspended lets go of a release that must not run. The mark stays, so that a later restore knows whose suspension it is, and so does a finalizer for
// Departures: Flux does not uninstall what is suspended.
func (r *Reconciler) leaveSuspended(ctx context.Context, w *world) error {
	finalizers := w.otherFinalizers()
	if w.seen.Release.Suspended && w.seen.Release.Marked {
		finalizers = append(finalizers, backupsv1alpha1.UninstallFinalizer)
	}
	if err := r.patchRelease(ctx, w, map[string]any{"metadata": map[string]any{"finalizers": finalizers}}, "let go of"); err != nil {
		return err
	}
	if w.seen.Release.Suspended {
		r.Events.Eventf(w.job, nil, corev1.EventTypeWarning, backupsv1alpha1.ReasonManualActionRequired, "Restore",
			"HelmRelease %q stays suspended, as it would bring up an empty cluster", w.seen.Release.Name)
	}
	return nil
}

func (w *world) otherFinalizers() []string { return othersFinalizers(w.release.object) }

// othersFinalizers are those that are not ours, of this restore or of an earlier one.
func othersFinalizers(release *unstructured.Unstructured) []string {
	return slices.DeleteFunc(slices.Clone(release.GetFinalizers()), func(f string) bool {
		return f == backupsv1alpha1.RestoreFinalizer || f == backupsv1alpha1.UninstallFinalizer
	})
}

func (r *Reconciler) patchRelease(ctx context.Context, w *world, patch map[string]any, verb string) error {
	return patchRelease(ctx, r.Client, w.release.object, patch, verb)
}

// patchRelease changes exactly the version that was read.
func patchRelease(ctx context.Context, c client.Client, release *unstructured.Unstructured, patch map[string]any, verb string) error {
	metadata, _ := patch["metadata"].(map[string]any)
	metadata["resourceVersion"] = release.GetResourceVersion()
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(release.GroupVersionKind())
	target.SetNamespace(release.GetNamespace())
	target.SetName(release.GetName())
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(FieldManager))
	return refused(err, backupsv1alpha1.ReasonReleaseUnsafe, fmt.Sprintf("%s HelmRelease %q", verb, target.GetName()))
}
