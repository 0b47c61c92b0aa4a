package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// InstallBackupClass applies the strategy and the class of examples/, pointed at the environment's S3 server.
func (p *Platform) InstallBackupClass(ctx context.Context) error {
	return p.InstallBackupClassAt(ctx, p.S3.Endpoint)
}

// InstallBackupClassAt is InstallBackupClass with another way to that server, such as a proxy's.
func (p *Platform) InstallBackupClassAt(ctx context.Context, endpoint string) error {
	strategy, err := Example(p.Root, "backup", "strategy.yaml")
	if err != nil {
		return err
	}
	class, err := exampleObject[backupsv1alpha1.BackupClass](p.Root, "backup", "backupclass.yaml")
	if err != nil {
		return err
	}
	parameters := class.Spec.Strategies[0].Parameters
	parameters["endpoint"], parameters["bucket"], parameters["region"] = endpoint, p.S3.Bucket, p.S3.Region
	for _, o := range strategy {
		if err := p.Apply(ctx, o); err != nil {
			return err
		}
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(class)
	if err != nil {
		return err
	}
	return p.Apply(ctx, toApply(raw))
}

// Backup creates the BackupJob of examples/ under a name of its own.
func (t *Tenant) Backup(ctx context.Context, name string) (*backupsv1alpha1.BackupJob, error) {
	job, err := exampleObject[backupsv1alpha1.BackupJob](t.Root, "backup", "backupjob.yaml")
	if err != nil {
		return nil, err
	}
	job.Namespace, job.Name = t.Namespace, name
	return job, t.Client.Create(ctx, job)
}

// Restore creates the RestoreJob of examples/ under a name of its own.
func (t *Tenant) Restore(ctx context.Context, name, backup string, options map[string]any) (*backupsv1alpha1.RestoreJob, error) {
	job, err := exampleObject[backupsv1alpha1.RestoreJob](t.Root, "backup", "restorejob.yaml")
	if err != nil {
		return nil, err
	}
	job.Namespace, job.Name, job.Spec.BackupRef.Name = t.Namespace, name, backup
	if options != nil {
		raw, err := json.Marshal(options)
		if err != nil {
			return nil, err
		}
		job.Spec.Options = &runtime.RawExtension{Raw: raw}
	}
	return job, t.Client.Create(ctx, job)
}

// AwaitBackup waits for the end of a BackupJob; a failed one is an error with its message.
func (t *Tenant) AwaitBackup(ctx context.Context, name string, timeout time.Duration) (*backupsv1alpha1.BackupJob, error) {
	job := &backupsv1alpha1.BackupJob{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		return job.Status.Phase.Terminal(), t.Client.Get(ctx, key(t.Namespace, name), job)
	})
	return job, outcome("BackupJob", name, string(job.Status.Phase), string(backupsv1alpha1.BackupJobSucceeded), job.Status.Message, job.Status.Conditions, err)
}

// AwaitRestore waits for the end of a RestoreJob; a failed one is an error with its message.
func (t *Tenant) AwaitRestore(ctx context.Context, name string, timeout time.Duration) (*backupsv1alpha1.RestoreJob, error) {
	job := &backupsv1alpha1.RestoreJob{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		return job.Status.Phase.Terminal(), t.Client.Get(ctx, key(t.Namespace, name), job)
	})
	return job, outcome("RestoreJob", name, string(job.Status.Phase), string(backupsv1alpha1.RestoreJobSucceeded), job.Status.Message, job.Status.Conditions, err)
}

func outcome(kind, name, phase, wanted, message string, conditions []metav1.Condition, err error) error {
	if err == nil && phase == wanted {
		return nil
	}
	reason := ""
	if c := meta.FindStatusCondition(conditions, backupsv1alpha1.ConditionReady); c != nil {
		reason = c.Reason
	}
	return fmt.Errorf("%s %s ended as %q, not %q: %s: %s (wait: %w)", kind, name, phase, wanted, reason, message, err)
}

// BackupJob reads a job.
func (t *Tenant) BackupJob(ctx context.Context, name string) (*backupsv1alpha1.BackupJob, error) {
	job := &backupsv1alpha1.BackupJob{}
	return job, t.Client.Get(ctx, key(t.Namespace, name), job)
}
