package restorejob

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/proof"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
)

// Artifacts reads and writes the objects of a restore. Terminal faults say what is wrong with them, with the byte or the field.
type Artifacts interface {
	// Prove reads all of the source and checks it.
	Prove(ctx context.Context, namespace string, source record.Source, login proof.Login) (record.Proof, error)
	// Examine proves the source, and compares its live keys with a list, unless that is nil.
	Examine(ctx context.Context, namespace string, source record.Source, login proof.Login, live iter.Seq2[[]byte, error]) (record.Proof, artifact.Facts, error)
	// Prepare makes and stores the planned copy. Owner is the RestoreJob's UID.
	Prepare(ctx context.Context, namespace, owner string, source record.Source, proven record.Proof, plan record.Prepared) (record.Prepared, error)
	// Confirm looks whether a prepared copy is still there and can be read.
	Confirm(ctx context.Context, namespace string, source record.Source, prepared record.Prepared) error
	// Discard removes a prepared copy; an absent one is no error.
	Discard(ctx context.Context, namespace, owner string, source record.Source, key string) error
}

// discardTimeout bounds the one try to remove a prepared copy, and confirmTimeout each look whether one is there.
const (
	discardTimeout = 30 * time.Second
	confirmTimeout = 10 * time.Second
)

// inBackground starts a long step, or records what it found out. Between the two the job waits.
func (r *Reconciler) inBackground(ctx context.Context, w *world, d Decision, do work) error {
	apply, err, ended := r.Background.collect(w.job.UID, d.Action)
	if !ended {
		r.Background.begin(ctx, w.job.DeepCopy(), d.Action, w.seen.Deadline().Sub(w.seen.Now), do)
		return nil
	}
	if err != nil {
		return err
	}
	apply(w.record)
	return r.Records.Save(ctx, w.record)
}

func (r *Reconciler) prove(ctx context.Context, w *world, d Decision) error {
	namespace, source, version := w.job.Namespace, w.record.Source, w.record.EtcdVersion
	login := proof.Login{SecretName: rootSecret(w.record.Cluster)}
	cluster := w.cluster
	return r.inBackground(ctx, w, d, func(ctx context.Context) (func(*record.Record), error) {
		live := r.openListing(ctx, cluster)
		defer live.close()
		p, facts, err := r.Artifacts.Examine(ctx, namespace, source, login, live.all(ctx))
		if p.Minor == "" {
			p.Minor = minorOf(version)
		}
		found := restorereport.Find(facts, live.live)
		return func(rec *record.Record) { rec.Proof, rec.Findings = &p, found }, err
	})
}

// intendPrepare plans the copy. How far its revision must go is asked of the live members, who vanish with the deletion.
func (r *Reconciler) intendPrepare(ctx context.Context, w *world) error {
	live, quorum, err := r.liveRevisions(ctx, w)
	if err != nil {
		return err
	}
	rec := w.record
	rec.Prepared = &record.Prepared{
		Key: artifact.PreparedKey(rec.Source.Key, string(w.job.UID)),
		Bump: artifact.Bump(artifact.Revisions{
			Snapshot: rec.Proof.Revision, Live: live, HighWater: rec.HighWater, Quorum: quorum,
		}),
	}
	for _, revision := range live {
		rec.Prepared.Live = max(rec.Prepared.Live, revision)
	}
	return r.Records.Save(ctx, rec)
}

func (r *Reconciler) prepare(ctx context.Context, w *world, d Decision) error {
	namespace, owner, source, proven, plan := w.job.Namespace, string(w.job.UID), w.record.Source, *w.record.Proof, *w.record.Prepared
	if proven.Minor == "" {
		version, _, _ := unstructured.NestedString(w.record.Cluster, "spec", "version")
		proven.Minor = minorOf(version)
	}
	return r.inBackground(ctx, w, d, func(ctx context.Context) (func(*record.Record), error) {
		prepared, err := r.Artifacts.Prepare(ctx, namespace, owner, source, proven, plan)
		return func(rec *record.Record) {
			rec.Prepared = &prepared
			planSafety(rec)
		}, err
	})
}

// confirmCopies looks at the prepared copies once more: since they were stored, a lifecycle rule or a person may have removed them, or the credentials.
func (r *Reconciler) confirmCopies(ctx context.Context, w *world) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	if err := r.Artifacts.Confirm(ctx, w.job.Namespace, w.record.Source, *w.record.Prepared); err != nil {
		return fmt.Errorf("look at the prepared copy: %w", err)
	}
	if s := w.record.Safety; s.Ready() {
		if err := r.Artifacts.Confirm(ctx, w.job.Namespace, s.Source, *s.Prepared); err != nil {
			return fmt.Errorf("look at the prepared safety copy: %w", err)
		}
	}
	return nil
}

// overtaken tells whether the live cluster has come so close to the prepared revision that it may pass it before it is deleted. The plan is dropped then,
// and made anew.
func (r *Reconciler) overtaken(ctx context.Context, w *world) (bool, error) {
	live, _, err := r.liveRevisions(ctx, w)
	if err != nil {
		return false, err
	}
	for _, revision := range live {
		if revision > w.record.Prepared.Revision-safeDistance {
			w.record.Prepared = nil
			return true, r.Records.Save(ctx, w.record)
		}
	}
	return false, nil
}

// safeDistance is half of the slack that a bump has over the live revision.
const safeDistance = 500_000

// discard removes the prepared copy of a record whose restore has ended. It tries once: a copy that stays harms nobody, and an event says where it is.
func (r *Reconciler) discard(ctx context.Context, w *world, rec *record.Record, prepared *record.Prepared) error {
	bounded, cancel := context.WithTimeout(ctx, discardTimeout)
	defer cancel()
	if err := r.Artifacts.Discard(bounded, w.job.Namespace, string(rec.Job.UID), rec.Source, prepared.Key); err != nil {
		r.Events.Eventf(w.job, nil, corev1.EventTypeWarning, backupsv1alpha1.ReasonPreparedObjectLeft, "Restore", "%s",
			bound(fmt.Sprintf("the prepared copy s3://%s/%s could not be deleted, delete it by hand: %v", rec.Source.Bucket, prepared.Key, err)))
	}
	prepared.Discarded = true
	return r.Records.Save(ctx, rec)
}

// forget removes the record, after an event about copies that a seed may still read.
func (r *Reconciler) forget(ctx context.Context, w *world) error {
	for _, prepared := range leftCopies(w.record) {
		r.Events.Eventf(w.job, nil, corev1.EventTypeWarning, backupsv1alpha1.ReasonPreparedObjectLeft, "Restore", "%s",
			bound(fmt.Sprintf("the prepared copy s3://%s/%s is left, as an EtcdCluster may still start from it: delete it by hand", w.record.Source.Bucket, prepared.Key)))
	}
	return r.Records.Delete(ctx, record.Name(w.job.UID))
}

// forgetSuperseded removes a record that an earlier restore kept, and the copies that it had prepared.
func (r *Reconciler) forgetSuperseded(ctx context.Context, w *world) error {
	name := w.seen.Record.Superseded
	older, err := r.Records.Get(ctx, types.UID(strings.TrimPrefix(name, record.Name(""))))
	if err != nil {
		return err
	}
	for _, prepared := range leftCopies(older) {
		if err := r.discard(ctx, w, older, prepared); err != nil {
			return err
		}
	}
	return r.Records.Delete(ctx, name)
}

// misfit tells why a proven snapshot cannot be restored into the cluster as it is captured, by an operator that restores those minors.
func misfit(rec *record.Record, minors []string) (*Problem, error) {
	t, err := fitTarget(rec, minors)
	if err != nil {
		return nil, err
	}
	p := rec.Proof
	facts := artifact.Facts{InUseBytes: p.InUseBytes, StorageVersion: p.Minor, Auth: artifact.Auth{Enabled: p.AuthEnabled}}
	if p.CorruptMember != "" && rec.OldUID != "" { // where nothing is left to lose, such data are better than none: the restore ends with what it reports
		facts.Alarms = []artifact.Alarm{{MemberID: p.CorruptMember, Type: artifact.AlarmCorrupt}}
	}
	if err := artifact.Fit(facts, p.SizeBytes, t); err != nil {
		return &Problem{Reason: fault.ReasonOf(err, backupsv1alpha1.ReasonVersionUnsupported), Message: err.Error()}, nil
	}
	return nil, nil
}

// fitTarget is the captured cluster as far as a snapshot has to fit it.
func fitTarget(rec *record.Record, minors []string) (artifact.Target, error) {
	t := artifact.Target{OperatorMinors: minors, AllowMinor: rec.AllowOtherMinor}
	t.Version, _, _ = unstructured.NestedString(rec.Cluster, "spec", "version")
	t.AuthEnabled, _, _ = unstructured.NestedBool(rec.Cluster, "spec", "auth", "enabled")
	t.QuotaBytes, _ = number(rec.Cluster, "spec", "options", "quotaBackendBytes")
	size, found, _ := unstructured.NestedFieldNoCopy(rec.Cluster, "spec", "storage", "size")
	if !found {
		return t, nil
	}
	volume, err := resource.ParseQuantity(fmt.Sprint(size)) // a whole number of bytes may stand there without quotes
	if err != nil {
		return t, fmt.Errorf("spec.storage.size %v of the captured cluster: %w", size, err)
	}
	t.VolumeBytes = volume.Value()
	return t, nil
}

// minorOf cuts X.Y off X.Y.Z; empty for anything else.
func minorOf(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return ""
	}
	return parts[0] + "." + parts[1]
}
