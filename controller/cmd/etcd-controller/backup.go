package main

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/backup"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/backupjob"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/strategy"
)

// setupBackups adds the reconciler of BackupJobs and the two small ones around it: what is wrong with a strategy, and what Cozystack's driver left held.
func setupBackups(mgr ctrl.Manager, o options, leases cache.Cache, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	r := &backupjob.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("backupjob"), Etcd: etcd.NetDialer{Resolve: o.resolve}, Now: time.Now,
		Deadline: o.backupDeadline, MaxRunning: o.maxSnapshots, QueueLimit: o.queueLimit, Concurrency: o.concurrency, Wrap: wrap,
		Leases: leases, Locks: &lock.Store{Client: mgr.GetClient(), Leases: leases, Live: mgr.GetAPIReader(), Cached: mgr.GetClient(), Now: time.Now},
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up BackupJobs: %w", err)
	}
	if err := (&strategy.Reconciler{Client: mgr.GetClient(), Wrap: wrap}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the check of strategies: %w", err)
	}
	if err := (&backup.Reconciler{Client: mgr.GetClient(), Wrap: wrap}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up Backups: %w", err)
	}
	return nil
}
