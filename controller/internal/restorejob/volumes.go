package restorejob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;patch

// observeVolumes looks at the recorded volumes until they have done their part: before the deletion, and where it never came to that.
func (r *Reconciler) observeVolumes(ctx context.Context, w *world) error {
	f, rec := &w.seen.Volumes, w.record
	f.Wanted, f.Intended = rec.KeepVolumesSeconds > 0 && rec.OldUID != "", rec.Intended(record.StepKeep)
	if !f.Intended || rec.Intended(record.StepDelete) {
		return nil
	}
	for _, v := range rec.Volumes {
		pv := corev1.PersistentVolume{}
		err := r.Reader.Get(ctx, types.NamespacedName{Name: v.Name}, &pv)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read PersistentVolume %q: %w", v.Name, err)
		}
		if claim := pv.Spec.ClaimRef; claim == nil || claim.UID != v.ClaimUID {
			continue // it serves somebody else by now
		}
		w.volumes = append(w.volumes, pv)
		if pv.Labels[backupsv1alpha1.LabelKeptBy] == string(w.job.UID) {
			f.Kept = append(f.Kept, v.Name)
		}
		if pv.Labels[backupsv1alpha1.LabelKeptBy] != string(w.job.UID) || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			f.Loose = append(f.Loose, v.Name)
		}
	}
	return nil
}

func (r *Reconciler) actOnVolumes(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case ActionIntendKeep:
		return r.intendKeep(ctx, w)
	case ActionKeepVolume:
		return r.keepVolume(ctx, w)
	case ActionGiveVolumesBack:
		return r.giveVolumesBack(ctx, w)
	}
	return r.actOnCluster(ctx, w, d)
}

// intendKeep records the volumes behind the members' claims with their reclaim policies, and until when they are kept.
func (r *Reconciler) intendKeep(ctx context.Context, w *world) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Reader.List(ctx, claims, client.InNamespace(w.job.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: w.application()}); err != nil {
		return fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	w.record.Volumes = nil
	for i := range claims.Items {
		claim := &claims.Items[i]
		if c := metav1.GetControllerOf(claim); c == nil || c.Kind != "EtcdMember" || claim.Spec.VolumeName == "" {
			continue
		}
		pv := &corev1.PersistentVolume{}
		err := r.Reader.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, pv)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read PersistentVolume %q: %w", claim.Spec.VolumeName, err)
		}
		if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
			continue
		}
		w.record.Volumes = append(w.record.Volumes, record.Volume{Name: pv.Name, ClaimUID: claim.UID, Policy: priorPolicy(pv)})
	}
	until := metav1.NewTime(r.Now().Add(seconds(w.record.KeepVolumesSeconds)))
	w.record.KeptUntil = &until
	w.record.Intend(record.StepKeep, r.Now())
	return r.Records.Save(ctx, w.record)
}

// priorPolicy is the reclaim policy that a volume had before any restore kept it. An earlier one that came to no deletion may have left its marks and its
// expiry on a volume of the live cluster.
func priorPolicy(pv *corev1.PersistentVolume) string {
	if policy := pv.Annotations[backupsv1alpha1.AnnotationPriorPolicy]; policy != "" && pv.Labels[backupsv1alpha1.LabelKeptBy] != "" {
		return policy
	}
	return string(pv.Spec.PersistentVolumeReclaimPolicy)
}

func (r *Reconciler) keepVolume(ctx context.Context, w *world) error {
	for _, v := range w.record.Volumes {
		if v.Name != w.seen.Volumes.Loose[0] {
			continue
		}
		for i := range w.volumes {
			if w.volumes[i].Name == v.Name {
				return r.markKept(ctx, w, &w.volumes[i], v)
			}
		}
	}
	return fault.Conflictf(backupsv1alpha1.ReasonRetrying, "PersistentVolume %q vanished meanwhile", w.seen.Volumes.Loose[0])
}

// markKept writes policy, expiry and what was before in one patch, so that a volume can be given back without any record.
func (r *Reconciler) markKept(ctx context.Context, w *world, pv *corev1.PersistentVolume, v record.Volume) error {
	before := pv.DeepCopy()
	metav1.SetMetaDataLabel(&pv.ObjectMeta, backupsv1alpha1.LabelKeptBy, string(w.job.UID))
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, backupsv1alpha1.AnnotationKeptUntil, w.record.KeptUntil.UTC().Format(time.RFC3339))
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, backupsv1alpha1.AnnotationPriorPolicy, v.Policy)
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, backupsv1alpha1.AnnotationKeptClaim, string(v.ClaimUID))
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return patchVolume(ctx, r.Client, pv, before)
}

// giveVolumesBack takes one volume out of our hands again.
func (r *Reconciler) giveVolumesBack(ctx context.Context, w *world) error {
	for i := range w.volumes {
		if pv := &w.volumes[i]; pv.Labels[backupsv1alpha1.LabelKeptBy] == string(w.job.UID) {
			return giveBack(ctx, r.Client, pv)
		}
	}
	return nil
}

// giveBack removes our marks. The reclaim policy goes back to what it was as long as the volume is still the former claim's: one that somebody has bound
// anew has a policy that is theirs to choose.
func giveBack(ctx context.Context, c client.Client, pv *corev1.PersistentVolume) error {
	before := pv.DeepCopy()
	if claim := pv.Spec.ClaimRef; claim != nil && string(claim.UID) == pv.Annotations[backupsv1alpha1.AnnotationKeptClaim] {
		if policy := corev1.PersistentVolumeReclaimPolicy(pv.Annotations[backupsv1alpha1.AnnotationPriorPolicy]); policy != "" {
			pv.Spec.PersistentVolumeReclaimPolicy = policy
		}
	}
	delete(pv.Labels, backupsv1alpha1.LabelKeptBy)
	for _, key := range []string{backupsv1alpha1.AnnotationKeptUntil, backupsv1alpha1.AnnotationPriorPolicy, backupsv1alpha1.AnnotationKeptClaim} {
		delete(pv.Annotations, key)
	}
	return patchVolume(ctx, c, pv, before)
}

func patchVolume(ctx context.Context, c client.Client, pv, before *corev1.PersistentVolume) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return refused(c.Patch(ctx, pv, patch, client.FieldOwner(FieldManager)), backupsv1alpha1.ReasonVolumesNotKept, fmt.Sprintf("patch PersistentVolume %q", pv.Name))
}
