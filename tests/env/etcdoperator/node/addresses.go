package node

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
)

// addresses are the loopback ports of one member. They belong to the Pod's name, so a rebuilt Pod keeps them.
type addresses struct {
	client, peer, metrics int
}

func (n *Node) addressesOf(key types.NamespacedName) (addresses, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.addrs[key]; ok {
		return a, nil
	}
	var a addresses
	for _, p := range []*int{&a.client, &a.peer, &a.metrics} {
		port, err := ports.Free()
		if err != nil {
			ports.Release(a.client, a.peer, a.metrics)
			return addresses{}, fmt.Errorf("ports of %s: %w", key, err)
		}
		*p = port
	}
	n.addrs[key] = a
	return a, nil
}

// ClientAddress is the loopback address of a member's client port, while the node knows the member.
func (n *Node) ClientAddress(namespace, pod string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.addrs[types.NamespacedName{Namespace: namespace, Name: pod}]
	return ports.Join(a.client), ok
}

func (n *Node) peerAddress(key types.NamespacedName) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.addrs[key]
	return ports.Join(a.peer), ok
}

// release gives the ports of a member back when its volume is gone and the name cannot come again.
func (n *Node) release(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.addrs[key]; ok {
		ports.Release(a.client, a.peer, a.metrics)
		delete(n.addrs, key)
	}
}

func (n *Node) releaseAll() {
	n.mu.Lock()
	keys := make([]types.NamespacedName, 0, len(n.addrs))
	for k := range n.addrs {
		keys = append(keys, k)
	}
	n.mu.Unlock()
	for _, k := range keys {
		n.release(k)
	}
}
