package node

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controllerOptions suit a test environment: several environments share a process, and errors are tried again soon.
func controllerOptions() controller.Options {
	return controller.Options{
		SkipNameValidation:      ptr.To(true),
		MaxConcurrentReconciles: 4,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, time.Second),
	}
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

func with(m map[string]string, pairs ...string) map[string]string {
	out := make(map[string]string, len(m)+len(pairs)/2)
	for k, v := range m {
		out[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}
