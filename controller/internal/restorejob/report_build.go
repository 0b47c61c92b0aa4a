package restorejob

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
)

// buildReport gathers what the record, the captured cluster, Kamaji's objects and past restores tell.
func (r *Reconciler) buildReport(ctx context.Context, w *world) (restorereport.Report, error) {
	rec, f := w.record, w.record.Findings
	report := restorereport.Report{
		FormatVersion: restorereport.FormatVersion, Namespace: w.job.Namespace, RestoreJob: w.job.Name, Application: rec.Application,
		Backup: w.job.Spec.BackupRef.Name, DryRun: rec.DryRun, WrittenAt: metav1.NewTime(w.seen.Now),
		Snapshot: restorereport.Snapshot{
			TakenAt: rec.TakenAt, EtcdVersion: rec.EtcdVersion, Revision: rec.Proof.Revision, Keys: rec.Proof.Keys, Bytes: f.DatabaseBytes, ObjectBytes: rec.Proof.SizeBytes,
		},
		Live:   restorereport.Live{Member: f.LiveMember, Revision: f.LiveRevision, Keys: f.LiveKeys, Error: f.LiveError},
		Vanish: f.Vanish, Appear: f.Appear,
	}
	if report.Snapshot.EtcdVersion == "" {
		report.Snapshot.EtcdVersion = rec.Proof.Minor
	}
	if f.LiveRevision > 0 {
		distance := f.LiveRevision - rec.Proof.Revision
		report.RevisionDistance = &distance
	}
	t, err := fitTarget(rec, nil)
	if err != nil {
		return report, err
	}
	report.Fit = restorereport.Fit{
		Fits: w.seen.Unfit == nil, InUseBytes: rec.Proof.InUseBytes, QuotaBytes: t.QuotaBytes, VolumeBytes: t.VolumeBytes,
		SnapshotVersion: report.Snapshot.EtcdVersion, ClusterVersion: t.Version, SnapshotAuth: rec.Proof.AuthEnabled, ClusterAuth: t.AuthEnabled,
	}
	if p := w.seen.Unfit; p != nil {
		report.Fit.Reason, report.Fit.Message = p.Reason, p.Message
	}
	report.ControlPlanes = r.reportPlanes(ctx, w)
	past, err := r.pastRestores(ctx, w)
	report.Downtime = restorereport.Measure(past)
	return report, err
}

// reportPlanes sorts the control planes. What cannot be read is said in the report.
func (r *Reconciler) reportPlanes(ctx context.Context, w *world) restorereport.ControlPlanes {
	stores, users, err := r.controlPlanes(ctx, w)
	if err != nil {
		return restorereport.ControlPlanes{Error: bound(err.Error())}
	}
	return restorereport.Sort(stores, users, w.record.Findings, w.record.TakenAt.Time)
}

// controlPlanes finds those that refer to a DataStore on this cluster, in whatever namespace. Without Kamaji there are none.
func (r *Reconciler) controlPlanes(ctx context.Context, w *world) ([]string, []kamajiv1alpha1.TenantControlPlane, error) {
	stores, err := r.dataStores(ctx, w)
	if err != nil || len(stores) == 0 {
		return nil, nil, err
	}
	names := make([]string, 0, len(stores))
	for i := range stores {
		names = append(names, stores[i].Name)
	}
	planes := &kamajiv1alpha1.TenantControlPlaneList{}
	if err := r.Reader.List(ctx, planes); err != nil {
		return nil, nil, fmt.Errorf("list TenantControlPlanes: %w", err)
	}
	return names, restorereport.UsersOf(planes.Items, names), nil
}

// dataStores are those whose endpoints are this cluster's. Without Kamaji there are none.
func (r *Reconciler) dataStores(ctx context.Context, w *world) ([]kamajiv1alpha1.DataStore, error) {
	list := &kamajiv1alpha1.DataStoreList{}
	if err := r.Reader.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list DataStores: %w", err)
	}
	return restorereport.DataStoresOf(list.Items, w.job.Namespace, w.record.Application), nil
}

// pastRestores measures the restores of the application that succeeded, by the times of their conditions.
func (r *Reconciler) pastRestores(ctx context.Context, w *world) ([]restorereport.Past, error) {
	jobs := &backupsv1alpha1.RestoreJobList{}
	if err := r.Reader.List(ctx, jobs, client.InNamespace(w.job.Namespace)); err != nil {
		return nil, fmt.Errorf("list RestoreJobs: %w", err)
	}
	var past []restorereport.Past
	for i := range jobs.Items {
		job := &jobs.Items[i]
		gone := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionDeleted)
		serving := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionServing)
		if job.Status.Phase != backupsv1alpha1.RestoreJobSucceeded || gone == nil || serving == nil || gone.Status != metav1.ConditionTrue || serving.Status != metav1.ConditionTrue {
			continue
		}
		same, err := r.restored(ctx, job, w.record.Application)
		if err != nil {
			return nil, err
		}
		if same {
			past = append(past, restorereport.Past{EndedAt: serving.LastTransitionTime.Time, Downtime: serving.LastTransitionTime.Sub(gone.LastTransitionTime.Time)})
		}
	}
	return past, nil
}

// restored tells whether a job restored an application. One whose Backup is gone is not counted.
func (r *Reconciler) restored(ctx context.Context, job *backupsv1alpha1.RestoreJob, application string) (bool, error) {
	backup := &backupsv1alpha1.Backup{}
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: job.Spec.BackupRef.Name}, backup)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return isEtcd(backup.Spec.ApplicationRef) && backup.Spec.ApplicationRef.Name == application, nil
}
