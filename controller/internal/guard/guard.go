// Package guard keeps the backup controllers off while Cozystack's own strategy driver is alive: both act on the same objects, and two drivers on one
// cluster would delete it twice.
package guard

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// LeaseName is the leader-election Lease of Cozystack's backupstrategy-controller, in whatever namespace it runs.
const LeaseName = "strategy.backups.cozystack.io"

// ReasonStockDriverAlive is the reason of the event on the Lease.
const ReasonStockDriverAlive = "StockDriverAlive"

const (
	// recheck is how often a held-back reconcile looks at the guard's own memory; it costs no API call.
	recheck = 5 * time.Second
	// fallbackDuration is used for a Lease that does not say how long it lasts.
	fallbackDuration = 15 * time.Second
	// firstSight is how long a Lease that looks abandoned is watched at first: a driver that lives renews it every 2 seconds, whatever its clock says.
	firstSight = 5 * time.Second
	// patience is how many lease durations without a renewal count as gone: the driver may be restarting.
	patience = 4
)

// Guard watches the Lease. It is closed until the first look at the Lease, unless that shows nobody.
type Guard struct {
	Client client.Client
	Events events.EventRecorder
	Now    func() time.Time

	holder atomic.Pointer[string]
	synced atomic.Bool

	mu        sync.Mutex
	sightings map[types.NamespacedName]sighting
}

// sighting is when a state of the Lease was seen first, by the clock of this process. The driver's clock may be another.
type sighting struct {
	renewed time.Time
	at      time.Time
	first   bool // nobody has seen it change
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=strategy.backups.cozystack.io,verbs=get;list;watch

// SetupWithManager starts the watch. The manager's cache must select the Lease by name (see the manager's options).
func (g *Guard) SetupWithManager(mgr ctrl.Manager) error {
	named := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == LeaseName })
	if err := mgr.Add(&firstLook{g}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("stock-driver-guard").
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false)}).
		For(&coordinationv1.Lease{}, builder.WithPredicates(named)).Complete(g)
}

// firstLook opens the guard once the cache shows that there is no such Lease at all.
type firstLook struct{ g *Guard }

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that waits for the Lease must know too whether it would be free to work.
func (*firstLook) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (f *firstLook) Start(ctx context.Context) error {
	_, err := f.g.look(ctx)
	return err
}

// Reconcile looks again whenever the Lease changes, and when it would expire.
func (g *Guard) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	until, err := g.look(ctx)
	return ctrl.Result{RequeueAfter: until}, err
}

// look reads the Lease from the cache and returns how long the current holder is trusted to live; 0 means that nobody holds it.
func (g *Guard) look(ctx context.Context) (time.Duration, error) {
	var leases coordinationv1.LeaseList
	if err := g.Client.List(ctx, &leases); err != nil {
		return 0, fmt.Errorf("look for the Lease %s of Cozystack's driver: %w", LeaseName, err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		left, sure := g.alive(lease)
		if !sure && !g.synced.Load() {
			return left, nil
		}
		if left > 0 && sure {
			g.synced.Store(true)
			g.close(ctx, lease)
			return left, nil
		}
	}
	g.synced.Store(true)
	if g.holder.Swap(nil) != nil {
		log.FromContext(ctx).Info("Cozystack's backup strategy driver is gone: the backup controllers start")
	}
	return 0, nil
}

// alive tells how long the Lease's holder is trusted to live, by how long ago this process saw the Lease change. At first sight its own time has to do; where
// that is long ago the answer is not sure before a while has passed without a change.
func (g *Guard) alive(lease *coordinationv1.Lease) (left time.Duration, sure bool) {
	s := lease.Spec
	if lease.Name != LeaseName || s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return 0, true
	}
	lasts := fallbackDuration
	if s.LeaseDurationSeconds != nil {
		lasts = time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	now := g.Now()
	seen := g.sight(types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}, s.RenewTime.Time, now)
	since := seen.at
	if seen.first && s.RenewTime.Time.Before(since) {
		since = s.RenewTime.Time
	}
	left = since.Add(patience * lasts).Sub(now)
	if watch := seen.at.Add(firstSight).Sub(now); seen.first && left <= 0 && watch > 0 {
		return watch, false
	}
	return left, true
}

func (g *Guard) sight(lease types.NamespacedName, renewed, now time.Time) sighting {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen, known := g.sightings[lease]
	if !known || !seen.renewed.Equal(renewed) {
		if g.sightings == nil {
			g.sightings = map[types.NamespacedName]sighting{}
		}
		seen = sighting{renewed: renewed, at: now, first: !known}
		g.sightings[lease] = seen
	}
	return seen
}

func (g *Guard) close(ctx context.Context, lease *coordinationv1.Lease) {
	holder := lease.Namespace + "/" + *lease.Spec.HolderIdentity
	if before := g.holder.Swap(&holder); before != nil && *before == holder {
		return
	}
	log.FromContext(ctx).Info("Cozystack's backup strategy driver is alive: the backup controllers stay off", "lease", lease.Namespace+"/"+lease.Name, "holder", holder)
	g.Events.Eventf(lease, nil, corev1.EventTypeWarning, ReasonStockDriverAlive, "Guard",
		"The backup controllers of cozy-etcd stay off while %s holds this Lease; scale Cozystack's backupstrategy-controller to 0 to use them", holder)
}

// Blocked says who keeps the backup controllers off; empty when nobody does.
func (g *Guard) Blocked() string {
	if !g.synced.Load() {
		return "the Lease of Cozystack's driver has not been looked at yet"
	}
	if h := g.holder.Load(); h != nil {
		return fmt.Sprintf("Cozystack's backup strategy driver is alive (Lease %s held by %s): scale it to 0", LeaseName, *h)
	}
	return ""
}

// Check is the readiness detail (healthz.Checker).
func (g *Guard) Check(_ *http.Request) error {
	if why := g.Blocked(); why != "" {
		return fmt.Errorf("the backup controllers are off: %s", why)
	}
	return nil
}

// Wrap holds a reconciler back while the guard is closed.
func (g *Guard) Wrap(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		if g.Blocked() != "" {
			return reconcile.Result{RequeueAfter: recheck}, nil
		}
		return inner.Reconcile(ctx, req)
	})
}
