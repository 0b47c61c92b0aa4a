package lock

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups,verbs=get

// RestoreClaim is the claim of a RestoreJob.
func RestoreClaim(j *backupsv1alpha1.RestoreJob) Claim {
	return Claim{Kind: "RestoreJob", Name: j.Name, UID: j.UID, CreatedAt: j.CreationTimestamp.Time, Begun: j.Status.StartedAt != nil}
}

// BackupClaim is the claim of a BackupJob.
func BackupClaim(j *backupsv1alpha1.BackupJob) Claim {
	return Claim{Kind: "BackupJob", Name: j.Name, UID: j.UID, CreatedAt: j.CreationTimestamp.Time}
}

// RestoreClaims are those of the RestoreJobs of an application that have not ended.
func RestoreClaims(ctx context.Context, r client.Reader, namespace, application string) ([]Claim, error) {
	jobs := &backupsv1alpha1.RestoreJobList{}
	if err := r.List(ctx, jobs, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list RestoreJobs: %w", err)
	}
	var claims []Claim
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if j.Status.Phase.Terminal() || (!j.DeletionTimestamp.IsZero() && j.Status.StartedAt == nil) {
			continue
		}
		same, err := restores(ctx, r, j, application)
		if err != nil {
			return nil, err
		}
		if same {
			claims = append(claims, RestoreClaim(j))
		}
	}
	return claims, nil
}

// restores tells whether a RestoreJob is of an application. One whose Backup is gone fails on its next look unless it has started; then it may be restoring
// anything.
func restores(ctx context.Context, r client.Reader, j *backupsv1alpha1.RestoreJob, application string) (bool, error) {
	if !backupsv1alpha1.PossibleName(j.Spec.BackupRef.Name) {
		return false, nil
	}
	backup := &backupsv1alpha1.Backup{}
	err := r.Get(ctx, types.NamespacedName{Namespace: j.Namespace, Name: j.Spec.BackupRef.Name}, backup)
	if apierrors.IsNotFound(err) {
		return j.Status.StartedAt != nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Backup %q: %w", j.Spec.BackupRef.Name, err)
	}
	return of(backup.Spec.ApplicationRef, application), nil
}

// BackupClaims are those of the BackupJobs of an application that say that they wait for the lock. One that waits for something else lets others pass.
func BackupClaims(ctx context.Context, r client.Reader, namespace, application string) ([]Claim, error) {
	jobs := &backupsv1alpha1.BackupJobList{}
	if err := r.List(ctx, jobs, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list BackupJobs: %w", err)
	}
	var claims []Claim
	for i := range jobs.Items {
		j := &jobs.Items[i]
		ready := meta.FindStatusCondition(j.Status.Conditions, backupsv1alpha1.ConditionReady)
		waits := ready != nil && ready.Reason == backupsv1alpha1.ReasonWaitingForLock && !j.Status.Phase.Terminal() && j.DeletionTimestamp.IsZero()
		if waits && of(j.Spec.ApplicationRef, application) {
			claims = append(claims, BackupClaim(j))
		}
	}
	return claims, nil
}

// Ends tells that a BackupJob comes to its end.
func Ends(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*backupsv1alpha1.BackupJob)
	is, ok2 := e.ObjectNew.(*backupsv1alpha1.BackupJob)
	return ok && ok2 && !was.Status.Phase.Terminal() && is.Status.Phase.Terminal()
}

func of(ref corev1.TypedLocalObjectReference, application string) bool {
	return backupstrategy.IsEtcdApplication(ref) && ref.Name == application
}
