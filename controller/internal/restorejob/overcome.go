package restorejob

import (
	"fmt"
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
	hopeless := f.Terminal || s.Expired()
	if f.Conflict || decided(s) || terminal(s) || !hopeless {
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
