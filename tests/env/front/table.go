package front

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// ErrNobody is wrapped when no endpoint stands behind a name.
var ErrNobody = errors.New("no endpoint")

type clusterKey struct{ namespace, name string }

type member struct {
	addr  string
	ready bool
}

type cluster struct {
	members  map[string]member
	services map[string]bool
	next     int
}

// table knows which Service and member names exist and what answers for them.
type table struct {
	mu       sync.Mutex
	clusters map[clusterKey]*cluster
}

// SetMember adds a member or changes its address and readiness. Only ready members answer for a Service; a member answers for its own name always.
func (r *Router) SetMember(namespace, clusterName, name, clientAddr string, ready bool) {
	r.table.change(namespace, clusterName, func(c *cluster) { c.members[name] = member{clientAddr, ready} })
}

// RemoveMember forgets a member.
func (r *Router) RemoveMember(namespace, clusterName, name string) {
	r.table.change(namespace, clusterName, func(c *cluster) { delete(c.members, name) })
}

// SetService says whether a Service of the cluster exists.
func (r *Router) SetService(namespace, clusterName, service string, exists bool) {
	r.table.change(namespace, clusterName, func(c *cluster) {
		if exists {
			c.services[service] = true
		} else {
			delete(c.services, service)
		}
	})
}

func (t *table) change(namespace, name string, f func(*cluster)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clusters == nil {
		t.clusters = map[clusterKey]*cluster{}
	}
	key := clusterKey{namespace, name}
	c := t.clusters[key]
	if c == nil {
		c = &cluster{members: map[string]member{}, services: map[string]bool{}}
		t.clusters[key] = c
	}
	f(c)
}

// lookup resolves <service>.<namespace>.svc[.domain] and <member>.<service>.<namespace>.svc[.domain].
func (t *table) lookup(host string) (string, error) {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range []int{2, 3} {
		if len(labels) <= at || labels[at] != "svc" {
			continue
		}
		service, namespace := labels[at-2], labels[at-1]
		for key, c := range t.clusters {
			if key.namespace != namespace || !c.services[service] {
				continue
			}
			if at == 2 {
				return c.ready(host)
			}
			if m, ok := c.members[labels[0]]; ok {
				return m.addr, nil
			}
		}
	}
	return "", fmt.Errorf("%w behind %q", ErrNobody, host)
}

func (t *table) anyReady(key clusterKey) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.clusters[key]; c != nil {
		return c.ready(key.namespace + "/" + key.name)
	}
	return "", fmt.Errorf("%w behind %s/%s", ErrNobody, key.namespace, key.name)
}

// ready takes turns among the ready members.
func (c *cluster) ready(what string) (string, error) {
	var addrs []string
	for _, m := range c.members {
		if m.ready {
			addrs = append(addrs, m.addr)
		}
	}
	if len(addrs) == 0 {
		return "", fmt.Errorf("%w ready behind %q", ErrNobody, what)
	}
	slices.Sort(addrs) // the order of a map is random, and turns are fair only over a fixed order
	c.next++
	return addrs[c.next%len(addrs)], nil
}
