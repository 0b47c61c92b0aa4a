package restorejob

import (
	"fmt"
	"maps"
	"time"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// Failure is an error of a step, classified.
type Failure struct {
	Terminal bool // it never heals by waiting
	Conflict bool // the world changed: look again
	Reason   string
	Message  string
}

// Overcome decides what a failed step comes to. An error that may heal is waited out until the deadline. What has to be undone is undone: steps after the
// outcome is decided are tried without end, since giving up on them would leave a release suspended.
func Overcome(s Seen, d Decision, f Failure) (Decision, bool) {
	if f.Conflict || decided(s) || terminal(s) || (!f.Terminal && !s.givesUp(d.Action)) {
		return Decision{}, false
	}
	var end Decision
	switch {
	case s.Record == nil:
		end = fail(f.Reason, "%s", f.Message)
	case reversible(s):
		end = undone(f.Reason, "%s: the cluster was left as it is", f.Message)
	case s.rollingBack():
		end = conclude(rollbackEnd(s, f.Message))
	default:
		o := OutcomeFacts{Reason: f.Reason, Resume: s.latched(), Keep: !s.latched()}
		o.Message = f.Message
		if !o.Resume {
			o.Message = fmt.Sprintf("%s. %s", f.Message, remedy(s))
		}
		end = conclude(o)
	}
	end.Row = d.Row
	return end, true
}

// lateTries is how long a step that has its turn only after the deadline is tried again.
const lateTries = 10 * time.Minute

// givesUp tells that an error that may heal is not waited out any longer. Saving how or when the restore ends, or that it rolls back, is tried without end: the error
// would keep anything else from being recorded as well. After the deletion, what protects and brings back the cluster may begin at or after the deadline, and
// one error must not cost the data.
func (s Seen) givesUp(a Action) bool {
	if !s.Expired() {
		return false
	}
	switch a {
	case ActionConclude, ActionRollBack, ActionExtend:
		return false
	case ActionFence, ActionSuspend, ActionRecreate, ActionOwn:
		return reversible(s) || s.Record == nil || !s.Now.Before(s.Deadline().Add(lateTries))
	}
	return true
}

// keepRecord copies what a step may change before it saves: where the step fails, only what is saved counts.
func (w *world) keepRecord() *record.Record {
	if w.record == nil {
		return nil
	}
	kept := *w.record
	kept.Steps = maps.Clone(kept.Steps)
	kept.Safety = copyOf(kept.Safety)
	kept.Prepared = copyOf(kept.Prepared)
	return &kept
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
