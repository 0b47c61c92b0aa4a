package restorejob

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// request is what the job asks for, resolved.
type request struct {
	backup   *backupsv1alpha1.Backup
	source   record.Source
	revision int64
	version  string // of etcd; empty where the Backup does not say
	options  Options
	// spec is the object to recreate, and older the record that it came from, if it did.
	spec  map[string]any
	older *record.Record
}

// observeRequest reads what the job asks for. What is wrong with it is a fact; only what could not be read is an error.
func (r *Reconciler) observeRequest(ctx context.Context, w *world) error {
	options, problem := parseOptions(w.job.Spec.Options)
	f := &RequestFacts{BackupName: w.job.Spec.BackupRef.Name, Timeout: options.Timeout, Options: problem}
	w.request, w.seen.Request = &request{options: options}, f
	if ref := w.job.Spec.TargetApplicationRef; ref != nil {
		f.Target = applicationName(*ref)
	}
	var err error
	if f.Restorable, err = r.RestoreMinors(ctx); err != nil {
		return err
	}
	if !backupsv1alpha1.PossibleName(f.BackupName) {
		return nil
	}
	backup := &backupsv1alpha1.Backup{}
	err = r.Reader.Get(ctx, types.NamespacedName{Namespace: w.job.Namespace, Name: f.BackupName}, backup)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Backup %q: %w", f.BackupName, err)
	}
	w.request.backup = backup
	f.Backup = &BackupFacts{
		Deleting: !backup.DeletionTimestamp.IsZero(), Phase: backup.Status.Phase,
		Application: applicationName(backup.Spec.ApplicationRef), Etcd: isEtcd(backup.Spec.ApplicationRef),
	}
	if revision, err := strconv.ParseInt(backup.Spec.DriverMetadata[backupsv1alpha1.MetadataRevision], 10, 64); err == nil && revision > 0 {
		w.request.revision = revision
	}
	w.request.version = backup.Spec.DriverMetadata[backupsv1alpha1.MetadataEtcdVersion]
	return r.observeSource(ctx, w)
}

// observeSource asks where the artifact lies. A terminal answer is a fact about the request.
func (r *Reconciler) observeSource(ctx context.Context, w *world) error {
	if !w.seen.Request.Backup.Etcd || w.request.backup.Status.Phase != backupsv1alpha1.BackupReady {
		return nil
	}
	source, err := r.Sources.Source(ctx, w.request.backup)
	if fault.ClassOf(err) == fault.Terminal {
		w.seen.Request.Source = &Problem{Reason: fault.ReasonOf(err, backupsv1alpha1.ReasonBackupUnreadable), Message: err.Error()}
		return nil
	}
	w.request.source = source
	return err
}

func applicationName(ref corev1.TypedLocalObjectReference) string {
	return applicationGroup(ref) + "/" + ref.Kind + "/" + ref.Name
}

func applicationGroup(ref corev1.TypedLocalObjectReference) string {
	if ref.APIGroup == nil || *ref.APIGroup == "" {
		return backupsv1alpha1.DefaultApplicationGroup
	}
	return *ref.APIGroup
}

func isEtcd(ref corev1.TypedLocalObjectReference) bool {
	return applicationGroup(ref) == backupsv1alpha1.DefaultApplicationGroup && ref.Kind == backupsv1alpha1.EtcdApplicationKind
}

// observeSpec finds what would be recreated, until the record holds it.
func (r *Reconciler) observeSpec(ctx context.Context, w *world) error {
	f := w.seen.Request
	if f == nil {
		return nil
	}
	object, from, older, err := r.findSpec(ctx, w)
	if errors.Is(err, errNoSpec) {
		return nil
	}
	if err != nil {
		return err
	}
	w.request.spec, w.request.older = object, older
	f.SpecFrom = from
	f.Version, _ = object["spec"].(map[string]any)["version"].(string)
	replicas, set := number(object, "spec", "replicas")
	if f.Replicas = replicas; !set {
		f.Replicas = defaultReplicas
	}
	return nil
}
