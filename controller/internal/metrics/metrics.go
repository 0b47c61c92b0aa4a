// Package metrics holds what the controller counts. Names and labels are listed in the operations runbook.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

const namespace = "cozy_etcd"

// Results of a job.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

var (
	// BackupJobs counts finished BackupJobs by namespace and result.
	BackupJobs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "backupjobs_total", Help: "BackupJobs that ended, by result.",
	}, []string{"namespace", "result"})
	// BackupSeconds is the time from startedAt to completedAt of successful BackupJobs.
	BackupSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: "backup_duration_seconds", Help: "Time from start to success of a BackupJob.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	})
	// LastBackup is the Unix time of the last successful backup of an application; alert on its age.
	LastBackup = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "last_successful_backup_timestamp_seconds", Help: "When the last successful backup of an application completed.",
	}, []string{"namespace", "application"})
	// PlanRunsSkipped counts scheduled runs that made no BackupJob, by reason.
	PlanRunsSkipped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "plan_runs_skipped_total", Help: "Scheduled runs of a Plan that were skipped.",
	}, []string{"namespace", "plan", "reason"})
	// RestoreJobs counts finished RestoreJobs by namespace and result.
	RestoreJobs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "restorejobs_total", Help: "RestoreJobs that ended, by result.",
	}, []string{"namespace", "result"})
	// RestoreSeconds is the time from the deletion of the old cluster until a phase of the new one: serving or whole.
	RestoreSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "restore_duration_seconds", Help: "Time from the deletion of the old cluster until the restored one serves or is whole.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	}, []string{"until"})
	// OrphanedRecords is the number of restore records whose RestoreJob is gone.
	OrphanedRecords = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "restore_records_orphaned", Help: "Records of restores whose RestoreJob is gone; each may be the last place of a cluster's spec.",
	})
)

func init() {
	ctrlmetrics.Registry.MustRegister(BackupJobs, BackupSeconds, LastBackup, PlanRunsSkipped, RestoreJobs, RestoreSeconds, OrphanedRecords)
}
