package status

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written remembers which version of an object this process wrote last. A pass on an older one, out of a cache that is behind, would only end in a conflict;
// the watch brings the newer one. Its zero value is ready.
type Written struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

// Note remembers a version as the API server answered it.
func (w *Written) Note(o client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.UID]string{}
	}
	w.versions[o.GetUID()] = o.GetResourceVersion()
}

// Behind tells that an object is older than what was written last. Once it has caught up, nothing is remembered of it.
func (w *Written) Behind(o client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wrote, ok := w.versions[o.GetUID()]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), wrote)
	if err == nil && order < 0 {
		return true
	}
	delete(w.versions, o.GetUID())
	return false
}
