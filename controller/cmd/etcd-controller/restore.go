package main

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/operator"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorejob"
)

// setupRestores adds the reconciler of RestoreJobs and the look-out for records that no job belongs to.
func setupRestores(mgr ctrl.Manager, o options, leases cache.Cache, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	records := &record.Store{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.namespace}
	prover, err := newProver(mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}
	r := &restorejob.Reconciler{
		Client:        mgr.GetClient(),
		Reader:        mgr.GetAPIReader(),
		Records:       records,
		Sources:       restorejob.StrategySources{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()},
		Artifacts:     prover,
		Background:    restorejob.NewBackground(),
		Dialer:        etcd.NetDialer{Resolve: o.resolve},
		Keys:          etcd.NetDialer{Resolve: o.resolve},
		Alarms:        etcd.NetDialer{Resolve: o.resolve},
		Logins:        etcd.NetDialer{Resolve: o.resolve},
		TLS:           restorejob.SecretTLS(mgr.GetAPIReader()),
		Events:        mgr.GetEventRecorder("etcd-controller"),
		Now:           time.Now,
		RestoreMinors: operator.Abilities{Reader: mgr.GetAPIReader(), Deployment: o.operator, Otherwise: o.minors()}.Minors,
		Locks:         &lock.Store{Client: mgr.GetClient(), Leases: mgr.GetAPIReader(), Live: mgr.GetAPIReader(), Now: time.Now},
		Leases:        leases,
		QueueLimit:    o.queueLimit,
		MissingFence:  o.missingFence,
		Wrap:          wrap,
		Concurrency:   o.concurrency,
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up RestoreJobs: %w", err)
	}
	departures := &restorejob.Departures{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("etcd-controller"), Now: time.Now, Wrap: wrap,
	}
	if err := departures.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the uninstall of suspended HelmReleases: %w", err)
	}
	if err := mgr.Add(&record.Sweeper{Store: records, Jobs: mgr.GetAPIReader()}); err != nil {
		return fmt.Errorf("set up the look-out for left-over records: %w", err)
	}
	if err := mgr.Add(&restorejob.VolumeSweeper{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Now: time.Now}); err != nil {
		return fmt.Errorf("set up the return of kept volumes: %w", err)
	}
	return nil
}
