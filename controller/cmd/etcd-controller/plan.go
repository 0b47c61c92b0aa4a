package main

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/plan"
)

// setupPlans adds the reconciler of Plans, unless they are left to Cozystack's own controller.
func setupPlans(mgr ctrl.Manager, o options, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	if !o.plans {
		return nil
	}
	r := &plan.Reconciler{Client: mgr.GetClient(), Events: mgr.GetEventRecorder("plan"), Now: time.Now, Wrap: wrap}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up Plans: %w", err)
	}
	return nil
}
