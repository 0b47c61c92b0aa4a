package restorejob

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// world is what a pass has read: the facts, and the objects behind them for whoever acts.
type world struct {
	seen Seen

	job     *backupsv1alpha1.RestoreJob
	record  *record.Record
	request *request
	cluster *unstructured.Unstructured
	release *release
	// report is the ConfigMap of this job's report; nil where there is none, or where it was not looked for.
	report *metav1.PartialObjectMetadata
	// consumers is the record's list, brought up to date with the Pods that are there.
	consumers *record.Consumers
	lock      *lock.Lock
	// missingFence tells that a fence that does not work is accepted.
	missingFence bool
	safety       safetyObjects
	volumes      []corev1.PersistentVolume
}

// release is a HelmRelease, whole and as far as its type is known here.
type release struct {
	object *unstructured.Unstructured
	typed  *fluxv2.HelmRelease
}

// observe reads the world. Everything but the strategy and classes comes uncached: a decision to delete must not rest on a stale cache.
func (r *Reconciler) observe(ctx context.Context, job *backupsv1alpha1.RestoreJob) (*world, error) {
	now := r.Now()
	w := &world{job: job, seen: Seen{Now: now, Awake: r.Background.awake(now), Job: jobFacts(job)}, missingFence: r.MissingFence}
	var err error
	if w.record, err = r.Records.Get(ctx, job.UID); err != nil {
		return nil, err
	}
	if err := r.observeNamespace(ctx, w); err != nil {
		return nil, err
	}
	if w.record == nil {
		if err := r.observeRequest(ctx, w); err != nil {
			return nil, err
		}
	}
	application := w.application()
	if application == "" {
		return w, nil
	}
	for _, look := range []func(context.Context, *world) error{
		r.observeCluster, r.observeRelease, r.observeSpec, r.observeRecord, r.observeRemains, r.observeMembers, r.observeReport, r.observeConsumers,
		r.observeLock,
	} {
		if err := look(ctx, w); err != nil {
			return nil, err
		}
	}
	if err := r.observeArtifact(ctx, w); err != nil {
		return nil, err
	}
	r.observeFence(ctx, w)
	return w, nil
}

// observeArtifact reads from the record how far the artifact is.
func (r *Reconciler) observeArtifact(ctx context.Context, w *world) error {
	rec := w.record
	if rec == nil {
		return nil
	}
	w.seen.Working = r.Background.running(w.job.UID)
	w.seen.Gates.Proven, w.seen.Gates.Prepared = rec.Proof != nil, rec.Prepared.Stored()
	if err := r.observeSafety(ctx, w); err != nil {
		return err
	}
	if err := r.observeVolumes(ctx, w); err != nil {
		return err
	}
	if rec.Proof == nil || !reversible(w.seen) {
		return nil
	}
	minors, err := r.RestoreMinors(ctx)
	if err != nil {
		return err
	}
	w.seen.Unfit, err = misfit(rec, minors)
	return err
}

// application is the name of the application, its EtcdCluster and, as a rule, its HelmRelease; empty while it is not known to be one of ours.
func (w *world) application() string {
	switch {
	case w.record != nil:
		return w.record.Application
	case w.request.backup != nil && w.seen.Request.Backup.Etcd:
		return w.request.backup.Spec.ApplicationRef.Name
	}
	return ""
}

func jobFacts(job *backupsv1alpha1.RestoreJob) JobFacts {
	f := JobFacts{
		Deleting:       !job.DeletionTimestamp.IsZero(),
		Finalizer:      controllerutil.ContainsFinalizer(job, backupsv1alpha1.RestoreFinalizer),
		StockFinalizer: hasStockFinalizer(job),
		Phase:          job.Status.Phase,
		CreatedAt:      job.CreationTimestamp.Time,
		Gone:           meta.IsStatusConditionTrue(job.Status.Conditions, backupsv1alpha1.ConditionDeleted),
		Reported:       meta.IsStatusConditionTrue(job.Status.Conditions, backupsv1alpha1.ConditionReported),
		Serving:        meta.IsStatusConditionTrue(job.Status.Conditions, backupsv1alpha1.ConditionServing),
		RollbackShown:  meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionRolledBack) != nil,
	}
	if ready := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady); ready != nil && ready.Reason == backupsv1alpha1.ReasonRetrying {
		f.Trouble = ready.Message
	}
	if job.Status.StartedAt != nil {
		f.StartedAt = job.Status.StartedAt.Time
	}
	return f
}

func hasStockFinalizer(o client.Object) bool {
	return controllerutil.ContainsFinalizer(o, backupsv1alpha1.CozystackCleanupFinalizer) ||
		controllerutil.ContainsFinalizer(o, backupsv1alpha1.CozystackVeleroCleanupFinalizer)
}

func (r *Reconciler) observeNamespace(ctx context.Context, w *world) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Reader.Get(ctx, types.NamespacedName{Name: w.job.Namespace}, ns); err != nil {
		return fmt.Errorf("read the namespace: %w", err)
	}
	w.seen.Namespace.Terminating = !ns.DeletionTimestamp.IsZero()
	return nil
}

func (r *Reconciler) observeCluster(ctx context.Context, w *world) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterKind)
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: w.job.Namespace, Name: w.application()}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the EtcdCluster: %w", err)
	}
	w.cluster = u
	w.seen.Cluster = clusterFacts(u, w.job.UID)
	if w.record != nil {
		w.observeFailed()
		w.seen.Cluster.Captured = sameCapture(u, w.record.Cluster)
		w.seen.Cluster.Owned = ownedAsWanted(u, w.record)
		w.seen.Cluster.DeadlineRaised = deadlineRaised(u, w.record)
	}
	return nil
}

func (r *Reconciler) observeRecord(ctx context.Context, w *world) error {
	rec := w.record
	if rec == nil {
		return nil
	}
	f := &RecordFacts{
		Timeout: seconds(rec.TimeoutSeconds), SHA256: rec.SHA256, Revision: rec.StartRevision(), Backup: w.job.Spec.BackupRef.Name,
		SuspendIntended: rec.Intended(record.StepSuspend), DeleteIntended: rec.Intended(record.StepDelete),
		HasRelease: rec.Release != nil, WasSuspended: rec.Release.WasSuspended(),
		DryRun: rec.DryRun, FromLive: rec.SpecFrom == record.FromLive, KeepConsumers: rec.KeepConsumers,
	}
	replicas, set := number(rec.Cluster, "spec", "replicas")
	f.Parked = set && replicas == 0
	f.DeleteAt = rec.Steps[record.StepDelete].Time
	if rec.GraceUntil != nil {
		f.GraceUntil = rec.GraceUntil.Time
	}
	f.OldUID, f.OldClusterID = former(rec)
	f.Left = rec.Left
	if b := rec.Rollback; b != nil {
		f.RollbackAt, f.Cause = b.At.Time, b.Cause
	}
	if proven := rec.StartProof(); proven != nil {
		f.Keys = proven.Keys
	}
	if rec.Prepared != nil && !rec.Prepared.Discarded {
		f.PreparedKey = rec.Prepared.Key
	}
	if o := rec.Outcome; o != nil {
		f.Outcome = &OutcomeFacts{Succeeded: o.Succeeded, Resume: o.Resume, Keep: o.Keep, Reason: o.Reason, Message: o.Message}
	}
	w.seen.Record = f
	if captured := meta.FindStatusCondition(w.job.Status.Conditions, backupsv1alpha1.ConditionCaptured); captured != nil && strings.Contains(captured.Message, rec.SHA256) {
		w.seen.Job.Announced = rec.SHA256
	}
	if rec.Outcome == nil || !rec.Outcome.Succeeded || rec.DryRun || !w.job.Status.Phase.Terminal() {
		return nil
	}
	older, err := r.Records.Outlived(ctx, rec)
	if older != nil {
		f.Superseded = record.Name(older.Job.UID)
	}
	return err
}

func (r *Reconciler) observeRelease(ctx context.Context, w *world) error {
	name, elsewhere := w.releaseName()
	if elsewhere != "" {
		w.seen.Release = &ReleaseFacts{Name: name, Elsewhere: elsewhere}
		return nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(fluxv2.GroupVersion.WithKind("HelmRelease"))
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: w.job.Namespace, Name: name}, u)
	recorded := w.record != nil && w.record.Release != nil
	if gone := apierrors.IsNotFound(err) && !noKind(err); gone || (noKind(err) && !recorded) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the HelmRelease: %w", err)
	}
	w.release = &release{object: u}
	if w.release.typed, err = typedRelease(u); err != nil {
		return err
	}
	w.seen.Release = releaseFacts(w.release, w.cluster, w.job.UID, w.seen.Now)
	return nil
}

// noKind tells that the API server does not serve the kind, which says nothing of an object that was seen before: its discovery may only be incomplete.
func noKind(err error) bool {
	return meta.IsNoMatchError(err) || (apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse))
}

// releaseName is the HelmRelease that the cluster belongs to: the recorded one, else the one that Flux's labels on the cluster name, else the one with the
// application's name. The labels are the tenant's to edit, so they are never followed into another namespace.
func (w *world) releaseName() (name, elsewhere string) {
	if w.record != nil && w.record.Release != nil {
		return w.record.Release.Name, ""
	}
	name = w.application()
	if w.cluster == nil || w.seen.ours() {
		return name, ""
	}
	labels := w.cluster.GetLabels()
	labelled, namespace := labels[fluxv2.LabelName], labels[fluxv2.LabelNamespace]
	switch {
	case labelled == "":
		return name, ""
	case namespace != w.job.Namespace:
		return name, namespace + "/" + labelled
	}
	return labelled, ""
}
