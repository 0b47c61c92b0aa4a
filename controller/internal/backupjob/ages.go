package backupjob

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
)

// ages keeps the metric of each application at its last success: after a restart, finished jobs are seen in any order.
type ages struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time
}

func (a *ages) record(application client.ObjectKey, completed time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !completed.After(a.last[application]) {
		return
	}
	if a.last == nil {
		a.last = map[client.ObjectKey]time.Time{}
	}
	a.last[application] = completed
	metrics.LastBackup.WithLabelValues(application.Namespace, application.Name).Set(float64(completed.Unix()))
}

// forget drops the metric of each application of a namespace that no Backup is left of, as after an uninstall: an age that only grows would alert for ever.
func (a *ages) forget(namespace string, left []backupsv1alpha1.Backup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := map[string]bool{}
	for i := range left {
		kept[left[i].Spec.ApplicationRef.Name] = true
	}
	for application := range a.last {
		if application.Namespace == namespace && !kept[application.Name] {
			delete(a.last, application)
			metrics.LastBackup.DeleteLabelValues(application.Namespace, application.Name)
		}
	}
}

func (a *ages) knows(namespace string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for application := range a.last {
		if application.Namespace == namespace {
			return true
		}
	}
	return false
}

// remember tells the age of a Backup whose job is gone: jobs are cleared away, and a controller that starts anew must not be silent about an application whose
// backups have stopped. It reads the cache.
func (r *Reconciler) remember(ctx context.Context, key client.ObjectKey) {
	backup := &backupsv1alpha1.Backup{}
	if r.Get(ctx, key, backup) != nil || backup.Status.Phase != backupsv1alpha1.BackupReady || !backup.DeletionTimestamp.IsZero() ||
		!backupstrategy.IsEtcdStrategy(backup.Spec.StrategyRef) {
		return
	}
	at := backup.Spec.TakenAt.Time
	if c := meta.FindStatusCondition(backup.Status.Conditions, backupsv1alpha1.ConditionReady); c != nil {
		at = c.LastTransitionTime.Time
	}
	r.ages.record(client.ObjectKey{Namespace: key.Namespace, Name: backup.Spec.ApplicationRef.Name}, at)
}

// forget looks whether anything is left to tell the age of, after a job or a Backup has gone. It reads the cache.
func (r *Reconciler) forget(ctx context.Context, namespace string) {
	if !r.ages.knows(namespace) {
		return
	}
	var backups backupsv1alpha1.BackupList
	if err := r.List(ctx, &backups, client.InNamespace(namespace)); err != nil {
		log.FromContext(ctx).Error(err, "list Backups")
		return
	}
	r.ages.forget(namespace, backups.Items)
}
