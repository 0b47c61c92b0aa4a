package restorereport

import (
	"fmt"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// Consumers is how far the restart of the tenants' API servers is.
type Consumers struct {
	Pods      int   `json:"pods"`
	Restarted int   `json:"restarted"`
	Failed    Names `json:"failed"` // Pod and why
	Pending   Names `json:"pending"`
	// LeftOut counts Pods beyond the limit, which are not restarted.
	LeftOut int      `json:"leftOut,omitempty"`
	Trouble []string `json:"trouble,omitempty"`
}

// Count sums the record's list up.
func Count(c *record.Consumers) Consumers {
	out := Consumers{Pods: len(c.Pods) + c.LeftOut, LeftOut: c.LeftOut, Trouble: c.Trouble}
	for _, p := range c.Pods {
		pod := p.Namespace + "/" + p.Name
		switch p.State {
		case record.ConsumerRestarted:
			out.Restarted++
		case record.ConsumerFailed:
			out.Failed.Add(pod + ": " + p.Message)
		default:
			if p.Message != "" {
				pod += ": " + p.Message
			}
			out.Pending.Add(pod)
		}
	}
	return out
}

// Mark is short and changes whenever the restart has moved on.
func (c Consumers) Mark() string {
	return fmt.Sprintf("%d of %d restarted, %d failed, %d to come", c.Restarted, c.Pods, c.Failed.Count, c.Pending.Count)
}

// Empty tells that nobody uses the etcd, as far as is known.
func (c Consumers) Empty() bool { return c.Pods == 0 && len(c.Trouble) == 0 }

// Done tells that nothing more happens.
func (c Consumers) Done() bool { return c.Pending.Count == 0 }

// Clean tells that all were restarted.
func (c Consumers) Clean() bool {
	return c.Done() && c.Failed.Count == 0 && c.LeftOut == 0 && len(c.Trouble) == 0
}
