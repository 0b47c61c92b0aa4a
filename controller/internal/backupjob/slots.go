package backupjob

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// forgetAfter ends the memory of a snapshot that never showed up in the cache.
const forgetAfter = time.Minute

// slots keeps jobs that start in the same instant to the limits: it remembers snapshots that this process has asked for and its cache does not show yet.
type slots struct {
	mu      sync.Mutex
	pending map[types.NamespacedName]request
}

type request struct {
	cluster string
	at      time.Time
}

// view is the load as far as it is known: snapshots under way, and among them one of the same cluster.
type view struct {
	running int
	rival   string
}

// look returns the load beside the snapshot called own.
func (s *slots) look(own types.NamespacedName, cluster string, cached []etcdv1alpha2.EtcdSnapshot, now time.Time) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookLocked(own, cluster, cached, now)
}

func (s *slots) lookLocked(own types.NamespacedName, cluster string, cached []etcdv1alpha2.EtcdSnapshot, now time.Time) view {
	var v view
	add := func(name types.NamespacedName, of string) {
		if name == own {
			return
		}
		v.running++
		if name.Namespace == own.Namespace && of == cluster {
			v.rival = fmt.Sprintf("EtcdSnapshot %q", name.Name)
		}
	}
	for i := range cached {
		name := types.NamespacedName{Namespace: cached[i].Namespace, Name: cached[i].Name}
		delete(s.pending, name)
		if underWay(&cached[i]) {
			add(name, cached[i].Spec.ClusterRef.Name)
		}
	}
	for name, r := range s.pending {
		if now.Sub(r.at) > forgetAfter {
			delete(s.pending, name)
			continue
		}
		add(name, r.cluster)
	}
	return v
}

// reserve takes a slot for the snapshot, unless limit are taken or another of its cluster is under way. list reads the cache, inside the lock: an entry that
// a fresher look has dropped must not be missed by an older list.
func (s *slots) reserve(own types.NamespacedName, cluster string, limit int, now time.Time, list func() ([]etcdv1alpha2.EtcdSnapshot, error)) (view, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cached, err := list()
	if err != nil {
		return view{}, false, err
	}
	v := s.lookLocked(own, cluster, cached, now)
	if v.running >= limit || v.rival != "" {
		return v, false, nil
	}
	if s.pending == nil {
		s.pending = map[types.NamespacedName]request{}
	}
	s.pending[own] = request{cluster: cluster, at: now}
	return v, true, nil
}

// release gives the slot of a snapshot back that was not created.
func (s *slots) release(own types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, own)
}
