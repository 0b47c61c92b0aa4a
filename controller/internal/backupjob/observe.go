package backupjob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/safekeep"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupjobs;backupclasses;restorejobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backups,verbs=get;list;watch
// +kubebuilder:rbac:groups=strategy.backups.cozystack.io,resources=etcds,verbs=get;list;watch
// +kubebuilder:rbac:groups=etcd-operator.cozystack.io,resources=etcdclusters;etcdmembers;etcdsnapshots,verbs=get;list;watch
// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.cozystack.io,resources=etcds,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// observation is what Decide sees, and the objects behind it that act needs.
type observation struct {
	seen        Seen
	row         backupsv1alpha1.BackupClassStrategy
	strategy    *strategyv1alpha1.Etcd
	destination backupstrategy.Destination
	whole       *unstructured.Unstructured
	cluster     *etcdv1alpha2.EtcdCluster // the same, as far as it is known here
	lock        *lock.Lock
	snapshot    *etcdv1alpha2.EtcdSnapshot
}

// observe looks only as far as a decision can depend on what it finds: a job that is over costs no read, one that has not started only cached ones.
func (r *Reconciler) observe(ctx context.Context, job *backupsv1alpha1.BackupJob) (observation, error) {
	o := observation{seen: Seen{Now: r.Now(), Limits: r.limits(), Job: jobFacts(job)}}
	o.seen.Snapshot.Name = backupstrategy.SnapshotName(job)
	o.seen.Application.Name = job.Spec.ApplicationRef.Name
	o.seen.Backup.Name = job.Name
	if o.seen.Job.Deleting {
		return o, nil
	}
	if job.Status.Phase == backupsv1alpha1.BackupJobSucceeded {
		return o, nil
	}
	if !o.seen.started() && !job.Status.Phase.Terminal() {
		if err := r.observeLock(ctx, job, &o); err != nil {
			return o, err
		}
	}
	if o.seen.started() {
		if err := r.observeChildren(ctx, job, &o); err != nil || o.seen.following() || job.Status.Phase.Terminal() {
			return o, err
		}
	}
	if err := r.observeClass(ctx, job, &o); err != nil || !o.seen.started() || o.seen.Resolution.State != Resolved {
		return o, err
	}
	if err := r.observeApplication(ctx, job, &o); err != nil || !o.seen.reachable() {
		return o, err
	}
	if err := r.observeMembers(ctx, job, &o); err != nil || !o.seen.Cluster.Quorum.CanServe() {
		return o, err
	}
	if err := r.observeQueue(ctx, job, &o); err != nil || o.seen.Queue.Ahead != "" {
		return o, err
	}
	return o, r.observeCredentials(ctx, job, &o)
}

func jobFacts(job *backupsv1alpha1.BackupJob) JobFacts {
	f := JobFacts{CreatedAt: job.CreationTimestamp.Time, Deleting: !job.DeletionTimestamp.IsZero(), Phase: job.Status.Phase, Blocker: "nothing was found to be in the way"}
	if job.Status.StartedAt != nil {
		f.StartedAt = job.Status.StartedAt.Time
	}
	f.Ours = meta.FindStatusCondition(job.Status.Conditions, status.Reconciling) != nil // Cozystack's controllers write Ready alone
	if c := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady); c != nil && !job.Status.Phase.Terminal() {
		f.Blocker = c.Reason + ": " + c.Message
	}
	return f
}

// observeChildren looks for the snapshot and the Backup of the job. A snapshot that the status speaks of and the cache does not have is looked for on the
// API server: the two caches are filled independently, and a snapshot that is gone ends the run.
func (r *Reconciler) observeChildren(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	f := &o.seen.Snapshot
	f.Requested = meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionSnapshotStored) != nil
	key := client.ObjectKey{Namespace: job.Namespace, Name: f.Name}
	snapshot := &etcdv1alpha2.EtcdSnapshot{}
	err := r.Get(ctx, key, snapshot)
	if apierrors.IsNotFound(err) && f.Requested && !job.Status.Phase.Terminal() {
		err = r.APIReader.Get(ctx, key, snapshot)
	}
	switch {
	case err == nil:
		o.snapshot = snapshot
		observeSnapshot(job, snapshot, f)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read EtcdSnapshot %s: %w", key, err)
	}
	backup := &backupsv1alpha1.Backup{}
	switch err := r.Get(ctx, client.ObjectKeyFromObject(job), backup); {
	case err == nil:
		o.seen.Backup.Exists = true
		o.seen.Backup.Ours = safekeep.Holds(backup, f.Name)
		o.seen.Backup.Ready = backup.Status.Phase == backupsv1alpha1.BackupReady
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read Backup %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

func observeSnapshot(job *backupsv1alpha1.BackupJob, s *etcdv1alpha2.EtcdSnapshot, f *SnapshotFacts) {
	f.Exists = true
	f.Ours = metav1.IsControlledBy(s, job)
	f.Deleting = !s.DeletionTimestamp.IsZero()
	f.CreatedAt = s.CreationTimestamp.Time
	f.Phase = s.Status.Phase
	if c := meta.FindStatusCondition(s.Status.Conditions, etcdv1alpha2.ConditionReady); c != nil {
		f.Detail = c.Reason + ": " + c.Message
		if s.Status.Phase == etcdv1alpha2.SnapshotComplete {
			f.FinishedAt = c.LastTransitionTime.Time
		}
	}
	if s.Status.Phase == etcdv1alpha2.SnapshotComplete {
		if _, err := backupstrategy.Artifact(s); err != nil {
			f.Invalid = err.Error()
		}
	}
}

func (r *Reconciler) observeClass(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	f := &o.seen.Resolution
	f.Class = job.Spec.BackupClassName
	class := &backupsv1alpha1.BackupClass{}
	if err := r.Get(ctx, client.ObjectKey{Name: f.Class}, class); err != nil {
		f.State = ClassMissing
		return ignoreNotFound(err, "read BackupClass %q", f.Class)
	}
	row, err := backupstrategy.Resolve(class, job.Spec.ApplicationRef)
	if err != nil {
		f.State, f.Message = NoRow, err.Error()
		return nil //nolint:nilerr // an answer, not a failure: the class has no row for the application
	}
	o.row, f.Strategy = row, row.StrategyRef.Name
	switch {
	case ptr.Deref(row.StrategyRef.APIGroup, "") == "" && backupstrategy.IsEtcdApplication(job.Spec.ApplicationRef):
		// No driver lives in the core group: left alone, the job would wait for ever without a word.
		f.State = UnsupportedStrategy
		return nil
	case !backupstrategy.InStrategyGroup(row.StrategyRef):
		f.State = ForeignStrategy
		return nil
	case !backupstrategy.IsEtcdStrategy(row.StrategyRef):
		f.State = UnsupportedStrategy
		return nil
	}
	strategy := &strategyv1alpha1.Etcd{}
	if err := r.Get(ctx, client.ObjectKey{Name: f.Strategy}, strategy); err != nil {
		f.State = StrategyMissing
		return ignoreNotFound(err, "read Etcd strategy %q", f.Strategy)
	}
	f.State, o.strategy = Resolved, strategy
	return nil
}

func (r *Reconciler) observeCredentials(ctx context.Context, job *backupsv1alpha1.BackupJob, o *observation) error {
	f := &o.seen.Credentials
	f.Name = o.destination.CredentialsSecretName
	secret := &corev1.Secret{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: f.Name}, secret); err != nil {
		f.State = CredentialsMissing
		return ignoreNotFound(err, "read Secret %q", f.Name)
	}
	f.State = CredentialsUsable
	for _, key := range []string{etcdv1alpha2.AccessKeyIDKey, etcdv1alpha2.SecretAccessKeyKey} {
		if problem := backupstrategy.CredentialProblem(secret.Data[key]); problem != "" {
			f.State, f.Message = CredentialsInvalid, fmt.Sprintf("key %s %s", key, problem)
			return nil
		}
	}
	return nil
}

func ignoreNotFound(err error, format string, args ...any) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func problemOf(err error) *Problem {
	return &Problem{Reason: fault.ReasonOf(err, backupsv1alpha1.ReasonTemplateInvalid), Message: err.Error()}
}

func transitionOf(c *metav1.Condition) time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
