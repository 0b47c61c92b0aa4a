package lock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kinds that may hold a lock, in the order in which those that wait for it are served. A kind that is not listed comes last.
var order = []string{"RestoreJob", "EtcdOpsRequest", "BackupJob"}

// Claim is an object that holds a lock or wants it.
type Claim struct {
	Kind, Name string
	UID        types.UID
	CreatedAt  time.Time
	// Begun tells that it has done something under the lock already, and lost the Lease since: it goes before all that have not.
	Begun bool
}

// String names the object as messages do.
func (c Claim) String() string {
	if c.Kind == "" {
		return fmt.Sprintf("somebody called %q", c.Name)
	}
	return fmt.Sprintf("%s %q", c.Kind, c.Name)
}

func (c Claim) rank() int {
	if i := slices.Index(order, c.Kind); i >= 0 {
		return i
	}
	return len(order)
}

// Before tells which of two claims is served first: by kind, then by creation, then by UID.
func (c Claim) Before(o Claim) bool {
	switch {
	case c.Begun != o.Begun:
		return c.Begun
	case c.rank() != o.rank():
		return c.rank() < o.rank()
	case !c.CreatedAt.Equal(o.CreatedAt):
		return c.CreatedAt.Before(o.CreatedAt)
	}
	return c.UID < o.UID
}

// identity is how a Lease names its holder: kind, name and UID.
func (c Claim) identity() string { return strings.Join([]string{c.Kind, c.Name, string(c.UID)}, "/") }

// parseIdentity reads a holderIdentity. One that nobody here wrote has no kind: such a holder is never taken for gone.
func parseIdentity(identity string) Claim {
	parts := strings.Split(identity, "/")
	if len(parts) != 3 {
		return Claim{Name: identity}
	}
	return Claim{Kind: parts[0], Name: parts[1], UID: types.UID(parts[2])}
}

// Verdict is what becomes of a claim. Neither Mine nor Ahead means that it may take the lock now.
type Verdict struct {
	Mine  bool   // it holds the lock
	Ahead string // who holds the lock, or is served first
}

// Free tells that the lock can be taken.
func (v Verdict) Free() bool { return !v.Mine && v.Ahead == "" }

// Judge decides on a claim, given the holder (nil: nobody), whether that one has ended, and all who wait. A holder that has not ended is never pre-empted.
func Judge(me Claim, holder *Claim, ended bool, waiters []Claim) Verdict {
	if holder != nil && holder.UID == me.UID && holder.Kind == me.Kind {
		return Verdict{Mine: true}
	}
	if holder != nil && !ended {
		return Verdict{Ahead: fmt.Sprintf("%s holds the lock of the application", holder)}
	}
	first := me
	for _, w := range waiters {
		if w.UID != me.UID && w.Before(first) {
			first = w
		}
	}
	if first.UID == me.UID {
		return Verdict{}
	}
	return Verdict{Ahead: fmt.Sprintf("%s of the same application goes first", first)}
}
