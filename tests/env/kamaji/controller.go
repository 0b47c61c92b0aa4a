// Package kamaji is a double of Kamaji as far as an etcd meets it: it judges DataStores, and for each TenantControlPlane it signs a client certificate, makes a user, a role and a key prefix in etcd, and keeps Pods in
// the place of the tenant's API server. No API server runs in them.
package kamaji

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/env/managed"
)

// Mode is the generation of Kamaji that is played.
type Mode int

const (
	// Current is 26.3.2 and later: a DataStore may name Secrets that do not exist yet and becomes ready with them; when its CA changes, tenants get new certificates and their API servers are rolled.
	Current Mode = iota
	// Older is up to 26.3.1: a webhook refuses a DataStore whose Secrets are missing, and running API servers stay on the certificate they started with.
	Older
)

// Options of the double.
type Options struct {
	Config  *rest.Config
	Mode    Mode
	Resolve Resolve // how to reach an endpoint's host
	// Log receives one line per change; nil drops them.
	Log func(format string, args ...any)
}

// Controller is the running double.
type Controller struct {
	opts    Options
	client  client.Client // uncached
	cancel  context.CancelFunc
	done    <-chan struct{}
	webhook *webhook

	mu      sync.Mutex
	frozen  bool
	refused map[types.NamespacedName]string // why a tenant could not be set up, for tests
}

// New prepares the double; Start runs it.
func New(o Options) (*Controller, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS, o.Config.UserAgent = -1, "kamaji"
	cl, err := client.New(o.Config, client.Options{Scheme: api.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("client of the Kamaji double: %w", err)
	}
	return &Controller{opts: o, client: cl, refused: map[types.NamespacedName]string{}}, nil
}

// Start runs the double until Stop or the end of ctx and returns once it watches.
func (c *Controller) Start(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(ctx)
	mgr, err := ctrl.NewManager(c.opts.Config, ctrl.Options{Scheme: c.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err == nil {
		err = c.setUp(mgr)
	}
	if err == nil && c.opts.Mode == Older {
		c.webhook, err = startWebhook(ctx, c.client)
	}
	if err != nil {
		c.cancel()
		c.cancel = nil
		return fmt.Errorf("start the Kamaji double: %w", err)
	}
	if c.done, err = managed.Run(ctx, mgr); err != nil {
		return fmt.Errorf("run the Kamaji double: %w", err)
	}
	return nil
}

// Stop ends the double; a webhook of it goes too, so that DataStores can be created without it.
func (c *Controller) Stop() {
	if c.cancel == nil {
		return
	}
	if c.webhook != nil {
		c.webhook.stop(c.client)
	}
	c.cancel()
	<-c.done
}

func (c *Controller) setUp(mgr ctrl.Manager) error {
	skip := true
	options := controller.Options{
		SkipNameValidation:      &skip,
		MaxConcurrentReconciles: 8, // a tenant whose etcd is down holds its worker until the timeout
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 2*time.Second),
	}
	allStores := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return c.stores(ctx) })
	err := ctrl.NewControllerManagedBy(mgr).Named("double-datastore").
		For(&kamajiv1alpha1.DataStore{}).
		Watches(&kamajiv1alpha1.TenantControlPlane{}, allStores).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.storesOfSecret)).
		WithOptions(options).Complete(reconcile.Func(c.reconcileStore))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("double-tenantcontrolplane").
		For(&kamajiv1alpha1.TenantControlPlane{}).
		Owns(&corev1.Secret{}).Owns(&appsv1.Deployment{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(tenantOfPod)).
		Watches(&kamajiv1alpha1.DataStore{}, handler.EnqueueRequestsFromMapFunc(c.tenantsOfStore)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.tenantsOfSecret)).
		WithOptions(options).Complete(reconcile.Func(c.reconcileTenant))
}

// Freeze stops the double from changing anything until thaw is called, as if Kamaji's Pod were down.
func (c *Controller) Freeze() (thaw func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.frozen = false
	}
}

func (c *Controller) isFrozen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen
}

func (c *Controller) stores(ctx context.Context) []reconcile.Request {
	list := &kamajiv1alpha1.DataStoreList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

func (c *Controller) storesOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	list := &kamajiv1alpha1.DataStoreList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		for _, ref := range references(&list.Items[i]) {
			if s := ref.ref.SecretReference; s != nil && s.Name == secret.GetName() && s.Namespace == secret.GetNamespace() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
				break
			}
		}
	}
	return requests
}

func (c *Controller) tenantsOfStore(ctx context.Context, ds client.Object) []reconcile.Request {
	list := &kamajiv1alpha1.TenantControlPlaneList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Spec.DataStore == ds.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

func (c *Controller) tenantsOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, store := range c.storesOfSecret(ctx, secret) {
		ds := &kamajiv1alpha1.DataStore{}
		ds.Name = store.Name
		requests = append(requests, c.tenantsOfStore(ctx, ds)...)
	}
	return requests
}
