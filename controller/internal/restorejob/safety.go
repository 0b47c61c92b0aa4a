package restorejob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/proof"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/quorum"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/safekeep"
)

// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdsnapshots,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups,verbs=create;patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups/status,verbs=patch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=restorejobs/finalizers,verbs=update

// rollbackDistance is how far the safety copy's revision lies above the prepared one: more than the restored cluster can serve before it is given up.
const rollbackDistance = 1_000_000_000

// safetyObjects are the EtcdSnapshot and the Backup of the safety copy; nil where they are not there, or are not needed any more.
type safetyObjects struct {
	snapshot *etcdv1alpha2.EtcdSnapshot
	backup   *backupsv1alpha1.Backup
}

// observeSafety reads how far the copy of the live cluster is.
func (r *Reconciler) observeSafety(ctx context.Context, w *world) error {
	rec, f := w.record, &w.seen.Safety
	f.Off = rec.NoSafety
	if err := r.observeQuorum(ctx, w); err != nil {
		return err
	}
	if s := rec.Safety; s != nil {
		f.fromRecord(s)
		if reversible(w.seen) {
			f.reconsider(s, w.seen)
		}
		if s.Taken() && s.Proof == nil {
			if err := r.observeSafetyObjects(ctx, w); err != nil {
				return err
			}
		}
	}
	w.seen.Gates.SafetyCopied = f.safetyCopied()
	return nil
}

func (f *SafetyFacts) fromRecord(s *record.Safety) {
	f.Decided, f.Skipped, f.Name, f.Backup = true, s.Skipped, s.Snapshot, s.Backup
	f.Proven, f.Prepared = s.Proof != nil, s.Ready()
	f.Exists, f.Complete, f.Stored = f.Proven, f.Proven, f.Proven
	if p := s.Prepared; p != nil && !p.Discarded {
		f.Key = p.Key
	}
}

// reconsider looks again at what was decided for another cluster, or for one that could not serve then and can now.
func (f *SafetyFacts) reconsider(s *record.Safety, seen Seen) {
	uid := ""
	if seen.Cluster != nil {
		uid = seen.Cluster.UID
	}
	other := string(s.ClusterUID) != uid
	switch {
	case !s.Taken():
		f.Decided = !other && !seen.Quorum.CanServe()
	case other:
		f.Problem = "the live cluster is another than the one that the safety snapshot was asked of"
	}
}

// observeQuorum counts the votes of the live cluster, as long as a safety copy of it may be needed.
func (r *Reconciler) observeQuorum(ctx context.Context, w *world) error {
	if w.record.NoSafety || w.cluster == nil || !reversible(w.seen) || w.record.Safety.Taken() {
		w.seen.Quorum = quorum.Count(nil)
		return nil
	}
	list := &etcdv1alpha2.EtcdMemberList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(w.job.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: w.application()}); err != nil {
		return fmt.Errorf("list EtcdMembers: %w", err)
	}
	members := make([]quorum.Member, 0, len(list.Items))
	for i := range list.Items {
		m := &list.Items[i]
		members = append(members, quorum.Member{
			Name: m.Name, Voter: m.Status.IsVoter, Ready: meta.IsStatusConditionTrue(m.Status.Conditions, etcdv1alpha2.ConditionReady),
			Current: metav1.IsControlledBy(m, w.cluster) && m.DeletionTimestamp.IsZero(),
		})
	}
	w.seen.Quorum = quorum.Count(members)
	return nil
}

func (r *Reconciler) observeSafetyObjects(ctx context.Context, w *world) error {
	f, namespace := &w.seen.Safety, w.job.Namespace
	snapshot, backup := &etcdv1alpha2.EtcdSnapshot{}, &backupsv1alpha1.Backup{}
	switch err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: f.Name}, snapshot); {
	case err == nil:
		w.safety.snapshot = snapshot
		f.fromSnapshot(snapshot, w.job)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read EtcdSnapshot %q: %w", f.Name, err)
	}
	switch err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: f.Backup}, backup); {
	case err == nil && !safekeep.Holds(backup, f.Name):
		f.Problem = fmt.Sprintf("Backup %q exists already and holds another snapshot", f.Backup)
	case err == nil:
		w.safety.backup = backup
		f.Stored = backup.Status.Phase == backupsv1alpha1.BackupReady && backup.Status.Artifact != nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read Backup %q: %w", f.Backup, err)
	}
	return nil
}

func (f *SafetyFacts) fromSnapshot(s *etcdv1alpha2.EtcdSnapshot, job *backupsv1alpha1.RestoreJob) {
	f.Exists, f.Complete = true, s.Status.Phase == etcdv1alpha2.SnapshotComplete
	if c := meta.FindStatusCondition(s.Status.Conditions, etcdv1alpha2.ConditionReady); c != nil {
		f.Detail = bound(c.Reason + ": " + c.Message)
	}
	switch {
	case !metav1.IsControlledBy(s, job):
		f.Problem = fmt.Sprintf("EtcdSnapshot %q is not this RestoreJob's", s.Name)
	case s.Status.Phase == etcdv1alpha2.SnapshotFailed:
		f.Problem = fmt.Sprintf("EtcdSnapshot %q has failed: %s", s.Name, f.Detail)
	case !s.DeletionTimestamp.IsZero() && !f.Complete:
		f.Problem = fmt.Sprintf("EtcdSnapshot %q is being deleted", s.Name)
	case f.Complete:
		if _, err := backupstrategy.Artifact(s); err != nil {
			f.Problem = err.Error()
		}
	}
}

func (r *Reconciler) actOnSafety(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case ActionSkipSafety:
		w.record.Safety = &record.Safety{ClusterUID: w.liveUID(), Skipped: w.seen.whySkipped()}
		return r.Records.Save(ctx, w.record)
	case ActionIntendSafety:
		return r.intendSafety(ctx, w)
	case ActionRequestSafety:
		return safetyError(r.requestSafety(ctx, w))
	case ActionStoreSafety:
		return safetyError(r.storeSafety(ctx, w))
	case ActionProveSafety:
		return safetyError(r.proveSafety(ctx, w, d))
	case ActionPrepareSafety:
		return safetyError(r.prepareSafety(ctx, w, d))
	case ActionDiscardSafety:
		return r.discard(ctx, w, w.record, w.record.Safety.Prepared)
	case ActionDropSnapshot:
		s := w.safety.snapshot
		return client.IgnoreNotFound(r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	return r.actOnWayBack(ctx, w, d)
}

// safetyError gives a hopeless error the one reason that says what to do about it.
func safetyError(err error) error {
	if fault.ClassOf(err) != fault.Terminal {
		return err
	}
	return fault.Terminalf(backupsv1alpha1.ReasonSafetySnapshotFailed, "there is no safety copy of the live cluster (%s): %w; %s", fault.ReasonOf(err, ""), err, safetyAdvice)
}

func (w *world) liveUID() types.UID {
	if w.cluster == nil {
		return ""
	}
	return w.cluster.GetUID()
}

// intendSafety names snapshot and Backup before either is made. The Backup has the job's name, or, where a Backup has that already, the snapshot's. A
// restore that the API server would not let come to its end leaves no Backup behind.
func (r *Reconciler) intendSafety(ctx context.Context, w *world) error {
	if err := r.dryRun(ctx, w); err != nil {
		return err
	}
	s := &record.Safety{ClusterUID: w.liveUID(), Snapshot: backupstrategy.SnapshotName(w.job), Backup: w.job.Name}
	taken := &metav1.PartialObjectMetadata{}
	taken.SetGroupVersionKind(backupsv1alpha1.GroupVersion.WithKind("Backup"))
	switch err := r.Reader.Get(ctx, client.ObjectKeyFromObject(w.job), taken); {
	case err == nil:
		s.Backup = s.Snapshot
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read Backup %q: %w", w.job.Name, err)
	}
	s.Source = w.record.Source
	s.Source.SizeBytes, s.Source.Checksum = 0, ""
	s.Source.Key = destinationBeside(w.record.Source).ObjectKey(s.Snapshot)
	if err := r.mayStore(ctx, w.job.Namespace, s.Source); err != nil {
		return err
	}
	w.record.Safety = s
	return r.Records.Save(ctx, w.record)
}

// mayStore asks for the copy's object as the operator's Job does before it writes, and whose end tells nobody why. Anything but a denial is left to the Job.
func (r *Reconciler) mayStore(ctx context.Context, namespace string, copied record.Source) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	err := r.Artifacts.Confirm(ctx, namespace, copied, record.Prepared{Key: copied.Key})
	if !errors.Is(err, store.ErrForbidden) {
		return nil
	}
	return fault.Terminalf(backupsv1alpha1.ReasonListBucketForbidden,
		"the credentials cannot tell whether %q exists, so no safety snapshot can be stored with them: grant s3:ListBucket on the bucket, or set spec.options.safetySnapshot to false: %w", copied.Key, err)
}

// destinationBeside is the place in which an object lies, as an administrator's strategy makes it.
func destinationBeside(s record.Source) backupstrategy.Destination {
	return backupstrategy.Destination{
		Endpoint: s.Endpoint, Bucket: s.Bucket, Prefix: strings.TrimSuffix(s.Key, path.Base(s.Key)), Region: s.Region, ForcePathStyle: s.ForcePathStyle,
		CredentialsSecretName: s.CredentialsSecretName,
	}
}

func (r *Reconciler) maker() safekeep.Maker {
	return safekeep.Maker{Client: r.Client, Reader: r.Reader, Etcd: r.Dialer}
}

func (r *Reconciler) requestSafety(ctx context.Context, w *world) error {
	facts, err := r.maker().Facts(ctx, w.cluster)
	if err != nil {
		return err
	}
	snapshot, err := SafetySnapshot(w.job, w.record, facts)
	if err != nil {
		return err
	}
	return r.maker().Submit(ctx, w.job, snapshot)
}

// SafetySnapshot is what a restore asks for before it deletes anything.
func SafetySnapshot(job *backupsv1alpha1.RestoreJob, rec *record.Record, facts backupstrategy.Facts) (*etcdv1alpha2.EtcdSnapshot, error) {
	return backupstrategy.NewSnapshot(backupstrategy.SnapshotRequest{
		Job: job, Cluster: rec.Application, Strategy: rec.Strategy, Parameters: rec.Parameters, Destination: destinationBeside(rec.Source), Facts: facts,
	})
}

func (r *Reconciler) storeSafety(ctx context.Context, w *world) error {
	request, err := SafetyBackup(w.job, w.record, w.safety.snapshot)
	if err != nil {
		return err
	}
	return r.maker().Keep(ctx, request)
}

// SafetyBackup gathers what the Backup of a complete safety snapshot is made from.
func SafetyBackup(job *backupsv1alpha1.RestoreJob, rec *record.Record, snapshot *etcdv1alpha2.EtcdSnapshot) (backupstrategy.BackupRequest, error) {
	group := backupsv1alpha1.DefaultApplicationGroup
	return backupstrategy.FromSnapshot(backupstrategy.BackupRequest{
		Name: rec.Safety.Backup, Namespace: job.Namespace, Labels: backupstrategy.OwnerLabels(job),
		ApplicationRef: corev1.TypedLocalObjectReference{APIGroup: &group, Kind: backupsv1alpha1.EtcdApplicationKind, Name: rec.Application},
	}, snapshot)
}

// proveSafety checks the copy like any other, except for the login: the snapshot is of the cluster that the login works with.
func (r *Reconciler) proveSafety(ctx context.Context, w *world, d Decision) error {
	namespace, source, version := w.job.Namespace, w.record.Safety.Source, w.etcdVersion()
	source.SizeBytes, source.Checksum = w.safety.backup.Status.Artifact.SizeBytes, w.safety.backup.Status.Artifact.Checksum
	return r.inBackground(ctx, w, d, func(ctx context.Context) (func(*record.Record), error) {
		p, err := r.Artifacts.Prove(ctx, namespace, source, proof.Login{})
		if p.Minor == "" {
			p.Minor = minorOf(version)
		}
		return func(rec *record.Record) {
			rec.Safety.Source, rec.Safety.Proof = source, &p
			planSafety(rec)
		}, err
	})
}

// planSafety plans the prepared safety copy once both revisions are known, and plans it anew where the main copy has come too close.
func planSafety(rec *record.Record) {
	s := rec.Safety
	if !s.Taken() || s.Proof == nil || !rec.Prepared.Stored() {
		return
	}
	if s.Prepared != nil && s.Proof.Revision+s.Prepared.Bump >= rec.Prepared.Revision+rollbackDistance/2 {
		return
	}
	s.Prepared = &record.Prepared{
		Key:  artifact.PreparedKey(s.Source.Key, string(rec.Job.UID)),
		Bump: max(rec.Prepared.Revision, s.Proof.Revision) + rollbackDistance - s.Proof.Revision,
	}
}

func (r *Reconciler) prepareSafety(ctx context.Context, w *world, d Decision) error {
	s := w.record.Safety
	namespace, owner, source, proven, plan := w.job.Namespace, string(w.job.UID), s.Source, *s.Proof, *s.Prepared
	return r.inBackground(ctx, w, d, func(ctx context.Context) (func(*record.Record), error) {
		prepared, err := r.Artifacts.Prepare(ctx, namespace, owner, source, proven, plan)
		return func(rec *record.Record) { rec.Safety.Prepared = &prepared }, err
	})
}

// leftCopies are the prepared copies of a record that may still be in the store; none of nil.
func leftCopies(rec *record.Record) []*record.Prepared {
	if rec == nil {
		return nil
	}
	var left []*record.Prepared
	all := []*record.Prepared{rec.Prepared}
	if rec.Safety != nil {
		all = append(all, rec.Safety.Prepared)
	}
	for _, p := range all {
		if p != nil && !p.Discarded {
			left = append(left, p)
		}
	}
	return left
}

// parametersOf reads the class row's parameters that a Backup was made with.
func parametersOf(b *backupsv1alpha1.Backup) map[string]string {
	var doc backupsv1alpha1.UnderlyingSnapshot
	if raw := b.Status.UnderlyingResources; raw == nil || json.Unmarshal(raw.Raw, &doc) != nil {
		return nil
	}
	return doc.Parameters
}
