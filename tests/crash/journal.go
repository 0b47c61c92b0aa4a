// Package crash disturbs the shipped controller at each of its writes, to the API server and to S3, and compares what is left in the end with an undisturbed
// run.
package crash

import (
	"errors"
	"strings"
	"sync"
)

// Mode is what happens at the n-th write.
type Mode string

// Modes. Kill: the write is carried out, and the controller is killed before it hears of that. Lose: the write is carried out, and its answer is an error.
// Refuse: the write is not carried out, and its answer is an error.
const (
	Kill   Mode = "kill"
	Lose   Mode = "lose"
	Refuse Mode = "refuse"
)

// errDisturbed is the answer of a disturbed write.
var errDisturbed = errors.New("disturbed")

// Point is a write to disturb: the nth of its name. The number in the order of all writes would not do, as how many there are of a status varies by a few.
type Point struct {
	Write string
	Nth   int // from 1
}

// Journal lists the controller's writes, wherever they go, in one order. Events and the Lease of the leader election do not count: losing one loses nothing.
type Journal struct {
	mu     sync.Mutex
	writes []string
	at     Point
	left   int // until the nth
	mode   Mode
	kill   func()
	done   bool
	hooks  map[string]func()
}

// Arm forgets the writes so far and disturbs one from now on, once; the zero Point disturbs none. Kill is called in mode Kill.
func (j *Journal) Arm(at Point, mode Mode, kill func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writes, j.at, j.left, j.mode, j.kill, j.done = nil, at, at.Nth, mode, kill, false
}

// On calls f once, as soon as a write that begins with the prefix is carried out, and before the controller hears of it.
func (j *Journal) On(prefix string, f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hooks = map[string]func(){prefix: f}
}

// Writes lists the writes since Arm.
func (j *Journal) Writes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.writes...)
}

// Disturbed tells whether the armed disturbance has happened.
func (j *Journal) Disturbed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done
}

// before tells whether a write that is about to be carried out must not be.
func (j *Journal) before(write string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mode == Refuse && !j.done && j.at.Write == write && j.left == 1 {
		j.done = true
		return errDisturbed
	}
	return nil
}

// after notes a write that was carried out; an error says that its answer must be lost.
func (j *Journal) after(write string) error {
	j.mu.Lock()
	j.writes = append(j.writes, write)
	if write == j.at.Write {
		j.left--
	}
	var hook, kill func()
	for prefix, f := range j.hooks {
		if strings.HasPrefix(write, prefix) {
			hook, j.hooks = f, nil
		}
	}
	var err error
	if j.mode != Refuse && !j.done && j.at.Write == write && j.left == 0 {
		err, j.done = errDisturbed, true
		if j.mode == Kill {
			kill = j.kill
		}
	}
	j.mu.Unlock()
	if hook != nil {
		hook()
	}
	if kill != nil {
		kill()
	}
	return err
}
