// Package restorejob restores an etcd cluster in place from a Backup: it captures the live EtcdCluster, deletes it, and recreates it with the snapshot as
// the source of its data. STATES.md lists the states.
package restorejob

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// Sources tells which object in S3 a Backup means, by the administrator's word and not the Backup's alone. A terminal fault says why it may not be read.
type Sources interface {
	Source(ctx context.Context, backup *backupsv1alpha1.Backup) (record.Source, error)
}

// Reconciler runs RestoreJobs.
type Reconciler struct {
	Client  client.Client
	Reader  client.Reader // uncached
	Records *record.Store
	Sources Sources
	// Locks of the applications, read uncached.
	Locks *lock.Store
	// Leases, where set, is the cache whose Leases wake the jobs that wait.
	Leases cache.Cache
	// QueueLimit is how long a job waits for the lock; 0 means 24 hours.
	QueueLimit time.Duration
	// MissingFence lets a restore delete a cluster although the API server does not refuse an empty one.
	MissingFence bool
	// Artifacts is the object store with the scratch folder, and Background where the long work on them is done.
	Artifacts  Artifacts
	Background *Background
	Dialer     etcd.Dialer
	Keys       etcd.KeyDialer
	Alarms     etcd.AlarmDialer
	Logins     etcd.LoginDialer
	TLS        TLSConfig
	Events     events.EventRecorder
	Now        func() time.Time
	// RestoreMinors tells the etcd minors that the running operator can restore, such as 3.6.
	RestoreMinors func(context.Context) ([]string, error)
	// Wrap, where set, goes around every reconcile: the guard against Cozystack's own driver.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
	// Concurrency is the number of RestoreJobs that are looked at at once; 0 means 1.
	Concurrency int
}

// Reconcile makes one pass: it observes, decides, makes at most one change, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &backupsv1alpha1.RestoreJob{}
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if done(job) {
		return ctrl.Result{}, nil
	}
	if err := r.Reader.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	w, err := r.observe(ctx, job)
	if err != nil {
		return r.unread(ctx, job, err)
	}
	return r.pass(ctx, w)
}

// unread shows why nothing happens where the world cannot be read. It ends a job at the queue limit if that has never held anything: its finalizer comes
// before all that it does. Any other goes on asking, as what it left behind cannot be seen.
func (r *Reconciler) unread(ctx context.Context, job *backupsv1alpha1.RestoreJob, err error) (ctrl.Result, error) {
	w := &world{job: job, seen: Seen{Now: r.Now(), Job: jobFacts(job)}}
	if terminal(w.seen) {
		return ctrl.Result{}, err
	}
	d := Decision{Row: RowUnread, Verb: Wait, Message: "the state of the restore cannot be read"}
	begun := w.seen.Job.Finalizer || !w.seen.Job.StartedAt.IsZero()
	if limit := r.queueLimit(); !begun && !w.seen.Now.Before(job.CreationTimestamp.Add(limit)) {
		d = fail(backupsv1alpha1.ReasonDeadlineExceeded, "the restore could not start within %s: %s: %v; nothing was touched", limit, d.Message, err)
		d.Row, err = RowUnread, nil
	}
	return r.settle(ctx, w, d, err)
}

// done spares finished jobs every read.
func done(job *backupsv1alpha1.RestoreJob) bool {
	s := Seen{Job: jobFacts(job)}
	return terminal(s) && !s.holdsJob()
}

func (r *Reconciler) pass(ctx context.Context, w *world) (ctrl.Result, error) {
	d := Decide(w.seen)
	saved := w.keepRecord()
	err := r.act(ctx, w, d)
	if err != nil {
		w.record = saved
		if end, over := Overcome(w.seen, d, failureOf(err)); over {
			log.FromContext(ctx).Error(err, "the restore ends", "row", d.Row, "reason", end.Reason)
			d = end
			err = r.act(ctx, w, d)
		}
	}
	log.FromContext(ctx).V(1).Info("pass", "row", d.Row, "verb", d.Verb, "action", d.Action, "reason", d.Reason)
	return r.settle(ctx, w, d, err)
}

func failureOf(err error) Failure {
	return Failure{
		Terminal: fault.ClassOf(err) == fault.Terminal,
		Conflict: fault.ClassOf(err) == fault.Conflict,
		Reason:   fault.ReasonOf(err, backupsv1alpha1.ReasonDeadlineExceeded),
		Message:  err.Error(),
	}
}
