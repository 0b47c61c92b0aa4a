package restorejob

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// work is a long step. What it found out goes into the record of the pass that collects it.
type work func(ctx context.Context) (func(*record.Record), error)

// Background runs the long steps of restores beside the passes, at most one for each RestoreJob, so that no worker of the queue is held by a download. It
// remembers nothing across restarts: a step that was cut off is simply run again. It is a Runnable of the manager, which ends all steps when it ends.
type Background struct {
	mu    sync.Mutex
	tasks map[types.UID]*task
	wake  chan event.GenericEvent
	since time.Time
}

type task struct {
	action Action
	cancel context.CancelFunc
	done   chan struct{}
	// apply and err are read after done is closed.
	apply func(*record.Record)
	err   error
}

// wakeBuffer is more than there are restores at once. A wake-up beyond it is lost, and the recheck timer makes up for it.
const wakeBuffer = 1024

// NewBackground makes one without any steps.
func NewBackground() *Background {
	return &Background{tasks: map[types.UID]*task{}, wake: make(chan event.GenericEvent, wakeBuffer)}
}

// Start implements manager.Runnable.
func (b *Background) Start(ctx context.Context) error {
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tasks {
		t.cancel()
	}
	return nil
}

// awake is when the first pass was made. Passes are made by the elected controller only, and by none that was away for a while: it would no longer be that.
func (b *Background) awake(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		b.since = now
	}
	return b.since
}

// running tells whether a step of the job is under way.
func (b *Background) running(job types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[job]
	return t != nil && !t.finished()
}

func (t *task) finished() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// begin starts a step, unless one of the job is under way. It ends at the deadline; the job is looked at again when it has ended.
func (b *Background) begin(ctx context.Context, job client.Object, action Action, deadline time.Duration, do work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[job.GetUID()]; t != nil && !t.finished() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	t := &task{action: action, cancel: cancel, done: make(chan struct{})}
	b.tasks[job.GetUID()] = t
	go func() {
		defer cancel()
		t.apply, t.err = do(ctx)
		close(t.done)
		select {
		case b.wake <- event.GenericEvent{Object: job}:
		default:
		}
	}()
}

// collect takes the result of a step that has ended, once.
func (b *Background) collect(job types.UID, action Action) (apply func(*record.Record), err error, ended bool) { //nolint:revive // whether there is a result comes last
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[job]
	if t == nil || !t.finished() {
		return nil, nil, false
	}
	delete(b.tasks, job)
	return t.apply, t.err, t.action == action
}

// stop breaks a step off and waits until it has let go.
func (b *Background) stop(job types.UID) {
	b.mu.Lock()
	t := b.tasks[job]
	delete(b.tasks, job)
	b.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}
