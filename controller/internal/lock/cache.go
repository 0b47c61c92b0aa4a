package lock

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// NewCache gives the manager a second cache, of nothing but the locks. In the manager's own cache a kind has one selector only, and that of Leases is taken:
// without one, the heartbeat of every node would be kept.
func NewCache(mgr ctrl.Manager) (cache.Cache, error) {
	only := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{Label: LabelValue})}
	c, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme, o.HTTPClient = mgr.GetScheme(), mgr.GetHTTPClient()
		o.Cache.ByObject = map[client.Object]cache.ByObject{&coordinationv1.Lease{}: only}
	})
	if err == nil {
		err = mgr.Add(c)
	}
	if err != nil {
		return nil, fmt.Errorf("set up the cache of locks: %w", err)
	}
	return c.GetCache(), nil
}
