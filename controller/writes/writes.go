// Package writes hands what the controller writes to tests outside of its tree, which cannot import internal packages: objects as its reconcilers build them,
// and its ways of changing objects of the platform. Nothing of the product imports it.
package writes

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/plan"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorejob"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/safekeep"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// PlanJob is the BackupJob of one run of a Plan.
func PlanJob(p *backupsv1alpha1.Plan, name string) *backupsv1alpha1.BackupJob {
	return plan.NewJob(p, name)
}

// Safety tells what a restore's safety copy is of and where it goes: beside the object Key.
type Safety struct {
	Application, Strategy string
	Parameters            map[string]string
	Beside                backupstrategy.Destination
	Key                   string
}

func (s Safety) record(job *backupsv1alpha1.RestoreJob) *record.Record {
	return &record.Record{
		Application: s.Application, Strategy: s.Strategy, Parameters: s.Parameters,
		Source: record.Source{
			Endpoint: s.Beside.Endpoint, Bucket: s.Beside.Bucket, Key: s.Key, Region: s.Beside.Region, ForcePathStyle: s.Beside.ForcePathStyle,
			CredentialsSecretName: s.Beside.CredentialsSecretName,
		},
		Safety: &record.Safety{Snapshot: backupstrategy.SnapshotName(job), Backup: job.Name},
	}
}

// Snapshot is the EtcdSnapshot of the safety copy.
func (s Safety) Snapshot(job *backupsv1alpha1.RestoreJob, facts backupstrategy.Facts) (*etcdv1alpha2.EtcdSnapshot, error) {
	return restorejob.SafetySnapshot(job, s.record(job), facts)
}

// Backup is the Backup of the safety copy, once its snapshot is complete.
func (s Safety) Backup(job *backupsv1alpha1.RestoreJob, snapshot *etcdv1alpha2.EtcdSnapshot) (*backupsv1alpha1.Backup, error) {
	request, err := restorejob.SafetyBackup(job, s.record(job), snapshot)
	if err != nil {
		return nil, err
	}
	return backupstrategy.NewBackup(request)
}

// Suspension is the merge patch that pauses a HelmRelease.
func Suspension(finalizers []string, by types.UID, suspended bool) map[string]any {
	return restorejob.Suspension(finalizers, by, suspended)
}

// SaveStatus writes the status of BackupJobs, RestoreJobs, Plans, BackupClasses and strategies.
func SaveStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	_, err := status.Patch(ctx, c, before, after)
	return err
}

// Keep gives a Backup that is there its status.
func Keep(ctx context.Context, c client.Client, request backupstrategy.BackupRequest) error {
	return safekeep.Maker{Client: c, Reader: c}.Keep(ctx, request)
}
