package plan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupjobs,verbs=create
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=plans/finalizers,verbs=update

// act makes the job of the due tick. One that is there already, unknown to the cache, is looked at before anything is said about it.
func (r *Reconciler) act(ctx context.Context, plan *backupsv1alpha1.Plan, s Seen, d Decision) error {
	if d.Verb != Create {
		return nil
	}
	job := NewJob(plan, s.Job)
	err := r.Create(ctx, job)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return fault.Conflictf(backupsv1alpha1.ReasonScheduled, "BackupJob %q: %w", s.Job, err)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fault.Terminalf(backupsv1alpha1.ReasonFailed, "the API server refuses BackupJob %q: %w", s.Job, err)
	default:
		return fmt.Errorf("create BackupJob %q: %w", s.Job, err)
	}
}

// NewJob is the run of a plan under a name.
func NewJob(plan *backupsv1alpha1.Plan, name string) *backupsv1alpha1.BackupJob {
	return &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: plan.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(plan, backupsv1alpha1.GroupVersion.WithKind("Plan"))},
		},
		Spec: backupsv1alpha1.BackupJobSpec{
			PlanRef:         &corev1.LocalObjectReference{Name: plan.Name},
			ApplicationRef:  plan.Spec.ApplicationRef,
			BackupClassName: plan.Spec.BackupClassName,
		},
	}
}
