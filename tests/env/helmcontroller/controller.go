// Package helmcontroller is a double of Flux's helm-controller: it really runs Helm for every HelmRelease, and can be made to fail, wait, or act out of turn. What it leaves out: sources, kubeconfigs of other
// clusters, impersonation, tests of a chart, post-renderers, dependencies.
package helmcontroller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/managed"
)

// Mode is the generation of Flux that is played.
type Mode int

const (
	// ServerSide is Flux 2.7 and later, with Helm 4: server-side apply with force unless a release says otherwise, readiness by kstatus.
	ServerSide Mode = iota
	// ClientSide is Flux before 2.7, with Helm 3: patches computed from the old and the new manifest.
	ClientSide
)

// Options of the double.
type Options struct {
	Config *rest.Config
	Mode   Mode
	// Charts maps the name in spec.chart.spec.chart or spec.chartRef.name to a chart's folder.
	Charts map[string]string
	// Log receives one line per action; nil drops them.
	Log func(format string, args ...any)
}

// Controller is the running double.
type Controller struct {
	opts   Options
	sdk    *sdk
	client client.Client // uncached: a stale status would look like a release of somebody else
	faults faults

	mu     sync.Mutex
	charts map[string]string
	locks  map[types.NamespacedName]*sync.Mutex

	cancel context.CancelFunc
	done   <-chan struct{}
}

// New prepares the double; Start runs it.
func New(o Options) (*Controller, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	sdk, err := newSDK(o.Config)
	if err != nil {
		return nil, err
	}
	cl, err := client.New(sdk.config, client.Options{Scheme: api.NewScheme(), Mapper: sdk.mapper})
	if err != nil {
		return nil, fmt.Errorf("client of the helm-controller double: %w", err)
	}
	c := &Controller{opts: o, sdk: sdk, client: cl, charts: map[string]string{}, locks: map[types.NamespacedName]*sync.Mutex{}}
	for name, path := range o.Charts {
		c.charts[name] = path
	}
	return c, nil
}

// Start runs the double until Stop or the end of ctx and returns once it watches.
func (c *Controller) Start(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(ctx)
	mgr, err := ctrl.NewManager(c.sdk.config, ctrl.Options{Scheme: c.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		c.cancel()
		c.cancel = nil
		return fmt.Errorf("manager of the helm-controller double: %w", err)
	}
	skip := true
	err = ctrl.NewControllerManagedBy(mgr).Named("double-helmrelease").
		For(&fluxv2.HelmRelease{}, builder.WithPredicates(asked)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			SkipNameValidation:      &skip,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 30*time.Second),
		}).Complete(reconcile.Func(c.reconcile))
	if err != nil {
		c.cancel()
		c.cancel = nil
		return fmt.Errorf("controller of the helm-controller double: %w", err)
	}
	if c.done, err = managed.Run(ctx, mgr); err != nil {
		return fmt.Errorf("run the helm-controller double: %w", err)
	}
	return nil
}

// Stop ends the double and waits for the action in progress.
func (c *Controller) Stop() {
	if c.cancel != nil {
		c.cancel()
		<-c.done
	}
}

// SetChart points a chart's name at another folder. Releases notice it at their next interval.
func (c *Controller) SetChart(name, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charts[name] = path
}

// lock keeps two actions on one release apart.
func (c *Controller) lock(key types.NamespacedName) (unlock func()) {
	c.mu.Lock()
	l := c.locks[key]
	if l == nil {
		l = &sync.Mutex{}
		c.locks[key] = l
	}
	c.mu.Unlock()
	l.Lock()
	return l.Unlock
}
