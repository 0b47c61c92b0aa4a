package restorejob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// A tenant's namespace may hold any ConfigMap; those of others are never written, as an owner of another UID shows.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch
// +kubebuilder:rbac:groups=kamaji.clastix.io,resources=datastores;tenantcontrolplanes,verbs=list

const (
	reportSuffix = "-report"
	maxName      = 253
)

// reportName is the ConfigMap of a job. A name that would be too long is cut, and a digest keeps it apart from others that begin alike.
func reportName(job string) string {
	if len(job)+len(reportSuffix) <= maxName {
		return job + reportSuffix
	}
	sum := sha256.Sum256([]byte(job))
	mark := "." + hex.EncodeToString(sum[:5])
	return job[:maxName-len(reportSuffix)-len(mark)-1] + "x" + mark + reportSuffix
}

// observeReport looks for the report where a step depends on it.
func (r *Reconciler) observeReport(ctx context.Context, w *world) error {
	rec := w.record
	if rec == nil || rec.Findings == nil || terminal(w.seen) {
		return nil
	}
	w.seen.Reported = rec.Unreported != ""
	if w.seen.Reported || (w.seen.Job.Reported && !reversible(w.seen) && !w.seen.restarting()) {
		return nil
	}
	cm := &metav1.PartialObjectMetadata{}
	cm.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: w.job.Namespace, Name: reportName(w.job.Name)}, cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	if c := metav1.GetControllerOf(cm); c != nil && c.UID == w.job.UID {
		w.report, w.seen.Reported = cm, true
	}
	return nil
}

// writeReport makes the report. What the API server will not take costs the report, and not the restore: only a dry run fails for it, as it has nothing else
// to give.
func (r *Reconciler) writeReport(ctx context.Context, w *world) error {
	report, err := r.buildReport(ctx, w)
	if err != nil {
		return err
	}
	data, err := report.Data()
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.job.Namespace, Name: reportName(w.job.Name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.job, backupsv1alpha1.GroupVersion.WithKind("RestoreJob"))},
		},
		Data: data,
	}
	if lost := lostText(report.ControlPlanes); lost != "" {
		cm.Annotations = map[string]string{backupsv1alpha1.AnnotationLost: lost}
	}
	err = r.Client.Create(ctx, cm, client.FieldOwner(FieldManager))
	switch {
	case err == nil:
		w.report, w.seen.Reported = &metav1.PartialObjectMetadata{ObjectMeta: cm.ObjectMeta}, true
		return nil
	case !lasting(err):
		return fmt.Errorf("write the report into ConfigMap %q: %w", cm.Name, err)
	}
	return r.unreported(ctx, w, report, fmt.Errorf("write the report into ConfigMap %q: %w", cm.Name, err))
}

// lasting tells that the API server will say the same again. That a ConfigMap of the name is there is lasting: a report of ours would have been seen.
func lasting(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func (r *Reconciler) unreported(ctx context.Context, w *world, report restorereport.Report, err error) error {
	if apierrors.IsAlreadyExists(err) {
		if err := r.observeReport(ctx, w); err != nil || w.seen.Reported {
			return err // another controller was faster
		}
	}
	if w.record.DryRun {
		return fault.Terminalf(backupsv1alpha1.ReasonReportRefused, "%w", err)
	}
	r.Events.Eventf(w.job, nil, corev1.EventTypeWarning, backupsv1alpha1.ReasonReportRefused, "Restore", "%s", bound(err.Error()))
	w.record.Unreported, w.record.Findings.Lost = bound(err.Error()), lostText(report.ControlPlanes)
	return r.Records.Save(ctx, w.record)
}

// reportedCondition says where the report is, and warns before the start of what does not come back.
func (w *world) reportedCondition(c status.Conditions) {
	f := w.record.Findings
	if f == nil {
		return
	}
	text := "the live keys were not compared"
	if f.Vanish != nil && f.Appear != nil {
		text = fmt.Sprintf("%d keys vanish and %d appear", f.Vanish.Keys, f.Appear.Keys)
	}
	switch {
	case w.record.Unreported != "" && w.seen.Job.Reported:
	case w.record.Unreported != "":
		c.Set(backupsv1alpha1.ConditionReported, metav1.ConditionFalse, backupsv1alpha1.ReasonReportRefused, "%s; %s%s", w.record.Unreported, text, f.Lost)
	case w.report != nil:
		reason, lost := backupsv1alpha1.ReasonReported, w.report.Annotations[backupsv1alpha1.AnnotationLost]
		if lost != "" {
			reason = backupsv1alpha1.ReasonControlPlanesLost
		}
		c.Set(backupsv1alpha1.ConditionReported, metav1.ConditionTrue, reason, "%s%s; see ConfigMap %s", text, bound(lost), w.report.Name)
	}
}

// lostText names some of the control planes that are lost; empty where there are none.
func lostText(c restorereport.ControlPlanes) string {
	const most = 10
	if c.Lost.Count == 0 {
		return ""
	}
	names := c.Lost.Names
	if len(names) > most {
		names = names[:most]
	}
	text := fmt.Sprintf("; %d TenantControlPlanes are not in the snapshot and are empty after the restore: %s", c.Lost.Count, strings.Join(names, ", "))
	if c.Lost.Count > len(names) {
		text += fmt.Sprintf(" and %d more", c.Lost.Count-len(names))
	}
	return text
}

// patchReport brings the consumers' part up to date. The rest stays as it was before the deletion.
func (r *Reconciler) patchReport(ctx context.Context, w *world) error {
	cm := &corev1.ConfigMap{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(w.report), cm); err != nil {
		return client.IgnoreNotFound(err)
	}
	var report restorereport.Report
	if err := json.Unmarshal([]byte(cm.Data[restorereport.KeyJSON]), &report); err != nil {
		report = restorereport.Report{FormatVersion: restorereport.FormatVersion, Namespace: w.job.Namespace, RestoreJob: w.job.Name, Application: w.record.Application}
	}
	consumers := restorereport.Count(w.record.Consumers)
	report.Consumers = &consumers
	data, err := report.Data()
	if err != nil {
		return err
	}
	before := cm.DeepCopy()
	cm.Data = data
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, backupsv1alpha1.AnnotationConsumers, consumers.Mark())
	err = r.Client.Patch(ctx, cm, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return &fault.Error{Class: fault.Conflict, Err: err}
	}
	// The restore has succeeded whatever becomes of its report.
	w.record.Unreported = bound(fmt.Sprintf("bring the report up to date: %v", err))
	return r.Records.Save(ctx, w.record)
}
