// Package managed runs the managers of doubles.
package managed

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Run starts a manager, which ends with ctx, and returns once its caches are filled. done is closed when it has ended, also after an error.
func Run(ctx context.Context, m ctrl.Manager) (done <-chan struct{}, err error) {
	failed, ended, synced := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		failed <- m.Start(ctx)
	}()
	go func() {
		m.GetCache().WaitForCacheSync(ctx)
		close(synced)
	}()
	select {
	case err := <-failed:
		return ended, err
	case <-synced:
		return ended, nil
	}
}
