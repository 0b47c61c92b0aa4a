package backupjob

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// forgetAfter ends the memory of a snapshot that never showed up in the cache.
const forgetAfter = time.Minute

// slots keeps jobs that start in the same instant to the limit: it remembers snapshots that this process has asked for and its cache does not show yet.
type slots struct {
	mu      sync.Mutex
	pending map[types.NamespacedName]time.Time
}

// look counts the snapshots under way beside the one called own, as far as they are known.
func (s *slots) look(own types.NamespacedName, cached []etcdv1alpha2.EtcdSnapshot, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookLocked(own, cached, now)
}

func (s *slots) lookLocked(own types.NamespacedName, cached []etcdv1alpha2.EtcdSnapshot, now time.Time) int {
	running := 0
	for i := range cached {
		name := types.NamespacedName{Namespace: cached[i].Namespace, Name: cached[i].Name}
		delete(s.pending, name)
		if underWay(&cached[i]) && name != own {
			running++
		}
	}
	for name, at := range s.pending {
		if now.Sub(at) > forgetAfter {
			delete(s.pending, name)
			continue
		}
		if name != own {
			running++
		}
	}
	return running
}

// reserve takes a slot for the snapshot, unless limit are taken. list reads the cache, inside the mutex: an entry that a fresher look has dropped must not be
// missed by an older list.
func (s *slots) reserve(own types.NamespacedName, limit int, now time.Time, list func() ([]etcdv1alpha2.EtcdSnapshot, error)) (int, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cached, err := list()
	if err != nil {
		return 0, false, err
	}
	running := s.lookLocked(own, cached, now)
	if running >= limit {
		return running, false, nil
	}
	if s.pending == nil {
		s.pending = map[types.NamespacedName]time.Time{}
	}
	s.pending[own] = now
	return running, true, nil
}

// release gives the slot of a snapshot back that was not created.
func (s *slots) release(own types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, own)
}
