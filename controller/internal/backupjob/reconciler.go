package backupjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// Defaults of the limits. The deadline leaves the operator's own 30 minutes for a snapshot Job, and a while for what comes before it.
const (
	DefaultDeadline    = 45 * time.Minute
	DefaultMaxRunning  = 10
	defaultBootstrap   = 30 * time.Minute
	defaultQuorumGrace = 2 * time.Minute
	defaultQuiet       = 30 * time.Second
)

// Reconciler runs BackupJobs. Deadline and MaxRunning have the defaults above where they are 0.
type Reconciler struct {
	client.Client // reads from a cache, unstructured objects too
	// APIReader reads from the API server: Secrets, and what must not be stale.
	APIReader client.Reader
	Events    events.EventRecorder
	Etcd      etcd.Dialer
	// Locks of the applications. Its Leases may come from a cache.
	Locks *lock.Store
	// Leases, where set, is the cache whose Leases wake the runs that wait.
	Leases cache.Cache
	Now    func() time.Time
	// Deadline of a run, from its startedAt.
	Deadline time.Duration
	// MaxRunning snapshots may be under way at once, over all namespaces.
	MaxRunning int
	// QueueLimit is how long a run waits for the lock before it starts; 0 means 24 hours.
	QueueLimit time.Duration
	// Concurrency of reconciles.
	Concurrency int
	// Wrap may put something between the queue and the reconciler; nil means nothing.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler

	slots slots
	ages  ages
	// written are the versions of jobs that this process wrote.
	written status.Written
	// flux and apps tell whether HelmReleases and Cozystack's own application API are served.
	flux, apps bool
}

// Reconcile makes one pass over one BackupJob.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &backupsv1alpha1.BackupJob{}
	if err := r.Get(ctx, req.NamespacedName, job); err != nil {
		if apierrors.IsNotFound(err) {
			r.remember(ctx, req.NamespacedName)
			r.forget(ctx, req.Namespace)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read BackupJob %s: %w", req, err)
	}
	if r.written.Behind(job) {
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, job)
	switch {
	case err != nil && (!o.seen.started() || job.Status.Phase.Terminal()):
		return ctrl.Result{}, err
	case err != nil:
		d := unread(o.seen, err)
		result, saveErr := r.settle(ctx, job, o, d, nil)
		if d.Verb == Fail {
			return result, saveErr
		}
		return ctrl.Result{}, errors.Join(err, saveErr)
	}
	d := Decide(o.seen)
	return r.settle(ctx, job, o, d, r.act(ctx, job, o, d))
}

func (r *Reconciler) limits() Limits {
	l := Limits{
		Deadline: r.Deadline, Bootstrap: defaultBootstrap, QuorumGrace: defaultQuorumGrace, Quiet: defaultQuiet, MaxRunning: r.MaxRunning, Queue: r.QueueLimit,
	}
	if l.Deadline == 0 {
		l.Deadline = DefaultDeadline
	}
	if l.MaxRunning == 0 {
		l.MaxRunning = DefaultMaxRunning
	}
	if l.Queue == 0 {
		l.Queue = lock.DefaultQueueLimit
	}
	return l
}
