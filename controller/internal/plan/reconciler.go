package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
)

// Reconciler makes the BackupJobs of Plans.
type Reconciler struct {
	client.Client
	Events events.EventRecorder
	Now    func() time.Time
	// Wrap may put something between the queue and the reconciler; nil means nothing.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler

	flux bool // HelmReleases are served
}

// Reconcile makes one pass over one Plan.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	plan := &backupsv1alpha1.Plan{}
	if err := r.Get(ctx, req.NamespacedName, plan); err != nil {
		if apierrors.IsNotFound(err) {
			metrics.PlanRunsSkipped.DeletePartialMatch(prometheus.Labels{"namespace": req.Namespace, "plan": req.Name})
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read Plan %s: %w", req, err)
	}
	seen, err := r.observe(ctx, plan)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(seen)
	return r.settle(ctx, plan, seen, d, r.act(ctx, plan, seen, d))
}
