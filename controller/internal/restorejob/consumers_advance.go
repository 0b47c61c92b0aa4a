package restorejob

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// podNow is a Pod of an API server as it is now.
type podNow struct {
	UID   types.UID
	Ready bool
	Going bool
}

// consumerStep is what the Pods show: the list as it should be recorded, and what comes next.
type consumerStep struct {
	consumers *record.Consumers
	changed   bool
	next      string
	waiting   string
}

// advance compares the recorded list with the Pods that are there. One Pod at a time is under way, so it looks at one control plane at most. It is pure but for
// look, and leaves the recorded list as it is.
func advance(recorded *record.Consumers, look func(namespace, plane string) ([]podNow, error), now time.Time) consumerStep {
	c := *recorded
	c.Pods = slices.Clone(recorded.Pods)
	s := consumerStep{consumers: &c}
	if now.Sub(c.StartedAt.Time) > consumersLimit {
		for i := range c.Pods {
			if unfinished(c.Pods[i]) {
				s.set(i, record.ConsumerFailed, now, fmt.Sprintf("not restarted within %s", consumersLimit))
			}
		}
		return s
	}
	i := nextConsumer(&c)
	if i < 0 {
		return s
	}
	p := c.Pods[i]
	name := p.Namespace + "/" + p.Name
	pods, err := look(p.Namespace, p.ControlPlane)
	if err != nil { // that nobody answers does not make a Pod gone
		s.waiting = fmt.Sprintf("Pod %s was not found out about: %v", name, err)
		return s
	}
	switch late := p.Since != nil && now.Sub(p.Since.Time) > consumerPatience; {
	case p.State == record.ConsumerPending && podGone(pods, p.UID):
		s.set(i, record.ConsumerEvicted, now, "")
	case p.State == record.ConsumerPending && late:
		s.giveUp(i, now, "its eviction was refused for "+consumerPatience.String()+": "+p.Message)
	case p.State == record.ConsumerPending && p.TriedAt != nil && now.Sub(p.TriedAt.Time) < evictionRetry:
		s.waiting = fmt.Sprintf("Pod %s is not evicted yet: %s", name, p.Message)
	case p.State == record.ConsumerPending:
		s.next = name
	case newReady(pods, &c, p) >= replaced(&c, p):
		s.set(i, record.ConsumerRestarted, now, "")
	case late:
		s.giveUp(i, now, fmt.Sprintf("its replacement is not ready after %s", consumerPatience))
	default:
		s.waiting = fmt.Sprintf("Pod %s is evicted; waiting until its replacement is ready", name)
	}
	return s
}

func unfinished(p record.ConsumerPod) bool {
	return p.State == record.ConsumerPending || p.State == record.ConsumerEvicted
}

// nextConsumer is the Pod whose turn it is: the one that is under way, else the first that is not begun; -1 when none is left.
func nextConsumer(c *record.Consumers) int {
	first := -1
	for i, p := range c.Pods {
		switch {
		case p.State == record.ConsumerEvicted:
			return i
		case p.State == record.ConsumerPending && first < 0:
			first = i
		}
	}
	return first
}

func (s *consumerStep) set(i int, state record.ConsumerState, now time.Time, message string) {
	at := metav1.NewTime(now)
	p := &s.consumers.Pods[i]
	p.State, p.Since, p.TriedAt, p.Message = state, &at, nil, message
	s.changed = true
}

// giveUp leaves the rest of a control plane alone: where one replacement does not come up, the others must go on serving.
func (s *consumerStep) giveUp(i int, now time.Time, message string) {
	p := s.consumers.Pods[i]
	s.set(i, record.ConsumerFailed, now, message)
	for j, other := range s.consumers.Pods {
		if other.Namespace == p.Namespace && other.ControlPlane == p.ControlPlane && unfinished(other) {
			s.set(j, record.ConsumerFailed, now, "left alone after the failure of Pod "+p.Name)
		}
	}
}

// podGone tells that a Pod is not there any more, or about to end.
func podGone(pods []podNow, uid types.UID) bool {
	i := slices.IndexFunc(pods, func(p podNow) bool { return p.UID == uid })
	return i < 0 || pods[i].Going
}

// newReady counts the ready Pods of a control plane that were not there at the beginning.
func newReady(pods []podNow, c *record.Consumers, of record.ConsumerPod) int {
	n := 0
	for _, p := range pods {
		old := slices.ContainsFunc(c.Pods, func(o record.ConsumerPod) bool {
			return o.UID == p.UID && o.Namespace == of.Namespace && o.ControlPlane == of.ControlPlane
		})
		if p.Ready && !p.Going && !old {
			n++
		}
	}
	return n
}

// replaced counts the Pods of a control plane that need a replacement by now.
func replaced(c *record.Consumers, of record.ConsumerPod) int {
	n := 0
	for _, p := range c.Pods {
		if p.Namespace == of.Namespace && p.ControlPlane == of.ControlPlane && (p.State == record.ConsumerEvicted || p.State == record.ConsumerRestarted) {
			n++
		}
	}
	return n
}
