package restorejob

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// FencePolicy is the name of the admission policy and of its binding, which charts/etcd-controller installs.
const FencePolicy = "etcd-restore-fence.cozy-etcd.io"

func (r *Reconciler) queueLimit() time.Duration {
	if r.QueueLimit == 0 {
		return lock.DefaultQueueLimit
	}
	return r.QueueLimit
}

// observeLock reads the Lease of the application.
func (r *Reconciler) observeLock(ctx context.Context, w *world) error {
	application := w.application()
	l, err := r.Locks.Get(ctx, w.job.Namespace, application)
	if err != nil {
		return err
	}
	w.lock = l
	f := LockFacts{Namespace: w.job.Namespace, Name: lock.Name(application), Limit: r.queueLimit(), Fence: l.Fence != nil}
	if l.Fence != nil {
		f.FencedAt = l.Fence.Since
		f.Fenced = w.record != nil && *l.Fence == w.fence(l.Fence)
		f.FenceMine = w.record != nil && l.Fence.Source == location(w.record.Source.Bucket, artifact.PreparedKey(w.record.Source.Key, string(w.job.UID)))
	}
	if terminal(w.seen) {
		f.Mine = l.Holder != nil && l.Holder.UID == w.job.UID
		w.seen.Lock = f
		return nil
	}
	verdict, err := r.Locks.Judge(ctx, l, lock.RestoreClaim(w.job), func() ([]lock.Claim, error) {
		return lock.RestoreClaims(ctx, r.Reader, w.job.Namespace, application)
	})
	f.Mine, f.Ahead = verdict.Mine, verdict.Ahead
	w.seen.Lock = f
	return err
}

func location(bucket, key string) string { return "s3://" + bucket + "/" + key }

// fence is what this restore fences: all but the object that its cluster starts from. Which release it is about is settled when it is first set up.
func (w *world) fence(old *lock.Fence) lock.Fence {
	start := w.record.Start()
	f := lock.Fence{Job: w.job.Name, Source: location(start.Bucket, start.Key)}
	switch {
	case w.record.Release != nil:
		f.Release = lock.ReleaseRef(w.record.Release.Name, w.record.Release.UID)
	case w.release != nil:
		f.Release = lock.ReleaseRef(w.release.typed.Name, w.release.typed.UID)
	}
	if old != nil {
		f.Since = old.Since
	}
	return f
}

// observeFence tries the fence while its answer decides: from its set-up to the recorded intent to delete. Where it need not work it is tried until the end, so
// that the status tells whether it does.
func (r *Reconciler) observeFence(ctx context.Context, w *world) {
	s := &w.seen
	s.Gates.Fenced = false
	if s.Record == nil || decided(*s) || !s.Lock.Fenced || (s.Record.DeleteIntended && !r.MissingFence) {
		return
	}
	works, err := r.fenceWorks(ctx, w)
	if err != nil {
		s.Lock.Trouble = err.Error()
	}
	s.Gates.Fenced = works || (r.MissingFence && reversible(*s) && s.Now.Sub(s.Lock.FencedAt) >= fenceGrace)
}

// fenceWorks asks the API server for an empty cluster, for show. Admission comes before the look whether the object exists, so the answer is the same while
// the live cluster is there. An error is any other refusal, which proves nothing.
func (r *Reconciler) fenceWorks(ctx context.Context, w *world) (bool, error) {
	empty := recreated(w.record)
	unstructured.RemoveNestedField(empty.Object, "spec", "bootstrap")
	err := r.Client.Create(ctx, empty, client.DryRunAll, client.FieldOwner(FieldManager))
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return false, nil
	case refusedByFence(err):
		return true, nil
	}
	return false, err
}

// refusedByFence tells our policy's refusal from any other.
func refusedByFence(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+FencePolicy+"'")
}

// proveFence is the last look before the deletion: a controller that was away for a while knows nothing of the policy any more.
func (r *Reconciler) proveFence(ctx context.Context, w *world) error {
	works, err := r.fenceWorks(ctx, w)
	if err != nil || works || r.MissingFence {
		return err
	}
	return fault.Transientf(backupsv1alpha1.ReasonFenceMissing, "%s", w.seen.fenceMissing())
}

func (r *Reconciler) actOnLock(ctx context.Context, w *world, d Decision) error {
	l := w.lock
	switch d.Action {
	case ActionLock:
		l.Take(lock.RestoreClaim(w.job))
	case ActionFence:
		if w.seen.Lock.Ahead == "" {
			l.Take(lock.RestoreClaim(w.job))
		}
		f := w.fence(nil)
		l.Fence = &f
	case ActionLiftFence:
		l.Fence = nil
	case ActionUnlock:
		l.Release()
		l.Raise(w.reached())
	}
	return r.Locks.Save(ctx, l)
}

// fencedCondition says whether an empty cluster is refused. After the deletion it stays as it was proven.
func (w *world) fencedCondition(c status.Conditions) {
	s := w.seen
	kept := func(value metav1.ConditionStatus, reason, format string, args ...any) {
		c.Set(backupsv1alpha1.ConditionFenced, value, reason, format, args...)
	}
	switch {
	case reversible(s) && s.Lock.Fenced && !s.Gates.Fenced:
		reason := backupsv1alpha1.ReasonFencing
		if s.Now.Sub(s.Lock.FencedAt) >= fenceGrace {
			reason = backupsv1alpha1.ReasonFenceMissing
		}
		kept(metav1.ConditionFalse, reason, "the API server does not refuse an empty EtcdCluster yet")
	case s.Record.DeleteIntended && s.Lock.Fenced && !decided(s) && w.missingFence && !s.Gates.Fenced:
		kept(metav1.ConditionFalse, backupsv1alpha1.ReasonFenceMissing, "the API server does not refuse an empty EtcdCluster, which --allow-missing-fence lets pass: "+
			"nobody may edit the application or resume its release now")
	case s.Record.DeleteIntended && s.Lock.Fenced && (!w.missingFence || s.Gates.Fenced):
		kept(metav1.ConditionTrue, backupsv1alpha1.ReasonFenced, "only this restore can create the EtcdCluster, by Lease %s", s.Lock.Name)
	case decided(s) && s.Record.DeleteIntended && !s.Lock.Fence:
		kept(metav1.ConditionFalse, backupsv1alpha1.ReasonFenceLifted, "anybody can create the EtcdCluster")
	}
}

// reached is the highest revision that a client may have seen. A copy that no cluster was to start from does not count.
func (w *world) reached() int64 {
	switch rec := w.record; {
	case rec == nil:
		return 0
	case !rec.Intended(record.StepDelete) && rec.Prepared != nil:
		return max(rec.HighWater, rec.Prepared.Live)
	default:
		return rec.Highest()
	}
}

// highWater is the highest revision that restores before this one knew of.
func (w *world) highWater(older *record.Record) int64 {
	highest := w.lock.HighWater
	if older != nil {
		highest = max(highest, older.Highest())
	}
	return highest
}
