package main

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/guard"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorejob"
)

// leaderElectionID names the Lease in the controller's namespace.
const leaderElectionID = "etcd-controller.cozy-etcd.io"

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// The events of the leader election are of the core group.
// +kubebuilder:rbac:groups="",resources=events,namespace=system,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=etcd-controller.cozy-etcd.io,namespace=system,verbs=get;update

func newManager(config *rest.Config, o options) (ctrl.Manager, error) {
	config.UserAgent = "etcd-controller"
	// The server's own priority and fairness is the limit; a client-side one only hides where time goes.
	config.QPS = -1
	stop := 30 * time.Second
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        api.NewScheme(),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &stop,
		Controller:                    ctrlconfig.Controller{CacheSyncTimeout: kindsPatience},
		// EtcdClusters are cached whole. What else is read as unstructured is read uncached, on purpose, by others.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Cache: cache.Options{
			ByObject: cacheSelectors(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, setup(mgr, o)
}

// cacheSelectors keep out of the cache what nobody reads.
func cacheSelectors() map[client.Object]cache.ByObject {
	selectors := restorejob.CacheSelectors()
	selectors[&coordinationv1.Lease{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", guard.LeaseName)}
	return selectors
}

// setup adds the guard and the reconcilers.
func setup(mgr ctrl.Manager, o options) error {
	g := &guard.Guard{Client: mgr.GetClient(), Events: mgr.GetEventRecorder("etcd-controller"), Now: time.Now}
	if err := g.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the guard: %w", err)
	}
	if err := mgr.AddReadyzCheck("stock-driver", g.Check); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("kinds", kindsServed(mgr.GetRESTMapper())); err != nil {
		return err
	}
	if err := mgr.Add(&arrivals{mapper: mgr.GetRESTMapper(), waiting: absent(mgr.GetRESTMapper(), optionalKinds()), every: kindsRecheck}); err != nil {
		return err
	}
	leases, err := lock.NewCache(mgr)
	if err != nil {
		return err
	}
	if err := setupBackups(mgr, o, leases, g.Wrap); err != nil {
		return err
	}
	if err := setupPlans(mgr, o, g.Wrap); err != nil {
		return err
	}
	locks := &lock.Store{Client: mgr.GetClient(), Leases: mgr.GetAPIReader(), Live: mgr.GetAPIReader(), Now: time.Now}
	keeper := &lock.Keeper{Store: locks, Leases: leases, Events: mgr.GetEventRecorder("etcd-controller"), Wrap: g.Wrap}
	if err := keeper.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the keeper of fences: %w", err)
	}
	return setupRestores(mgr, o, leases, g.Wrap)
}
