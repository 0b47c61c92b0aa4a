package helmcontroller

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Stage is a point of a Helm action at which a fault can strike.
type Stage string

const (
	// BeforeWrites: the release is marked pending and the HelmRelease Reconciling; no object is written yet.
	BeforeWrites Stage = "before-writes"
	// AfterWrites: every object is written; the release is not marked deployed yet.
	AfterWrites Stage = "after-writes"
)

// Point is where a Helm action of one HelmRelease stands.
type Point struct {
	types.NamespacedName
	Action string // install, upgrade, rollback or uninstall
	Stage  Stage
}

// Fault is called at every point of every action. It delays the action by not returning and fails it with an error.
type Fault func(ctx context.Context, at Point) error

// ErrInjected is how an action that FailNext has picked fails.
var ErrInjected = errors.New("fault injected by the test environment")

type faults struct {
	mu     sync.Mutex
	active map[int]Fault
	next   int
}

// Inject adds a fault and returns what removes it again.
func (c *Controller) Inject(f Fault) (remove func()) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	id := c.faults.next
	c.faults.next++
	if c.faults.active == nil {
		c.faults.active = map[int]Fault{}
	}
	c.faults.active[id] = f
	return func() {
		c.faults.mu.Lock()
		defer c.faults.mu.Unlock()
		delete(c.faults.active, id)
	}
}

// FailNext makes the next n actions of that name fail at a stage.
func (c *Controller) FailNext(namespace, name, action string, stage Stage, n int) {
	want := Point{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, Action: action, Stage: stage}
	var mu sync.Mutex
	c.Inject(func(_ context.Context, at Point) error {
		mu.Lock()
		defer mu.Unlock()
		if at != want || n == 0 {
			return nil
		}
		n--
		return ErrInjected
	})
}

// Hold stops the next action of a HelmRelease before its first write. Entered is closed when it is there; release lets it go on.
func (c *Controller) Hold(namespace, name string) (entered <-chan struct{}, release func()) {
	in, out := make(chan struct{}), make(chan struct{})
	var enter, leave sync.Once
	remove := c.Inject(func(ctx context.Context, at Point) error {
		if at.Namespace != namespace || at.Name != name || at.Stage != BeforeWrites {
			return nil
		}
		enter.Do(func() { close(in) })
		select {
		case <-out:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return in, func() { leave.Do(func() { remove(); close(out) }) }
}

func (f *faults) strike(ctx context.Context, at Point) error {
	f.mu.Lock()
	active := make([]Fault, 0, len(f.active))
	for _, fault := range f.active {
		active = append(active, fault)
	}
	f.mu.Unlock()
	for _, fault := range active {
		if err := fault(ctx, at); err != nil {
			return err
		}
	}
	return nil
}
