package main

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/backupjob"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

// setupBackups adds the reconciler of BackupJobs.
func setupBackups(mgr ctrl.Manager, o options, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	r := &backupjob.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("backupjob"), Etcd: etcd.NetDialer{Resolve: o.resolve}, Now: time.Now,
		Deadline: o.backupDeadline, MaxRunning: o.maxSnapshots, Concurrency: o.concurrency, Wrap: wrap,
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up BackupJobs: %w", err)
	}
	return nil
}
