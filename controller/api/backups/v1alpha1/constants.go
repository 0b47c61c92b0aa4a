package v1alpha1

// BackupJobPhase is the printed summary of a BackupJob.
type BackupJobPhase string

// Phases of a BackupJob. The empty phase means that nobody has looked at the job yet.
const (
	BackupJobPending   BackupJobPhase = "Pending"
	BackupJobRunning   BackupJobPhase = "Running"
	BackupJobSucceeded BackupJobPhase = "Succeeded"
	BackupJobFailed    BackupJobPhase = "Failed"
)

// Terminal tells whether the phase is final.
func (p BackupJobPhase) Terminal() bool { return p == BackupJobSucceeded || p == BackupJobFailed }

// RestoreJobPhase is the printed summary of a RestoreJob.
type RestoreJobPhase string

// Phases of a RestoreJob. The empty phase means that nobody has looked at the job yet.
const (
	RestoreJobPending   RestoreJobPhase = "Pending"
	RestoreJobRunning   RestoreJobPhase = "Running"
	RestoreJobSucceeded RestoreJobPhase = "Succeeded"
	RestoreJobFailed    RestoreJobPhase = "Failed"
)

// Terminal tells whether the phase is final.
func (p RestoreJobPhase) Terminal() bool { return p == RestoreJobSucceeded || p == RestoreJobFailed }

// BackupPhase is the printed summary of a Backup.
type BackupPhase string

// Phases of a Backup.
const (
	BackupPending BackupPhase = "Pending"
	BackupReady   BackupPhase = "Ready"
	BackupFailed  BackupPhase = "Failed"
)

// PlanScheduleType tells how a Plan's schedule is written.
type PlanScheduleType string

// PlanScheduleCron is the one type of schedule there is. An empty type means the same.
const PlanScheduleCron PlanScheduleType = "cron"

// Applications that Cozystack's own API serves.
const (
	// DefaultApplicationGroup is meant where an application reference or selector gives no group.
	DefaultApplicationGroup = "apps.cozystack.io"
	// DefaultApplicationVersion is the version in which that group serves its kinds.
	DefaultApplicationVersion = "v1alpha1"
	// EtcdApplicationKind is the application whose backups this project makes.
	EtcdApplicationKind = "Etcd"
)

// Labels that Cozystack puts on the children of a job.
const (
	LabelBackupJobName      = "backups.cozystack.io/owned-by.BackupJobName"
	LabelBackupJobNamespace = "backups.cozystack.io/owned-by.BackupJobNamespace"
)

// LabelRestoreJobName is the label of what a RestoreJob leaves behind: its safety snapshot and the Backup of it.
const LabelRestoreJobName = "cozy-etcd.io/restorejob"

// Labels of a Secret with S3 credentials that Cozystack copied into a tenant's namespace.
const (
	LabelManagedBy                = "apps.cozystack.io/managed-by"
	LabelManagedByCozystackBackup = "cozystack-backups"
)

// Finalizers that Cozystack's own driver puts on Backups and RestoreJobs.
const (
	CozystackCleanupFinalizer       = "backups.cozystack.io/cleanup"
	CozystackVeleroCleanupFinalizer = "backups.cozystack.io/cleanup-velero"
)

// Leases that Cozystack's own controllers hold while they are alive.
const (
	CozystackCoreLease     = "core.backups.cozystack.io"
	CozystackStrategyLease = "strategy.backups.cozystack.io"
)

// Keys of Backup.spec.driverMetadata that Cozystack's Etcd strategy writes and reads.
const (
	// MetadataBucket is the S3 bucket.
	MetadataBucket = "etcd.aenix.io/bucket"
	// MetadataEndpoint is the S3 endpoint's URL.
	MetadataEndpoint = "etcd.aenix.io/endpoint"
	// MetadataKey is the key prefix, not the object's key.
	MetadataKey = "etcd.aenix.io/key"
	// MetadataRegion is the S3 region.
	MetadataRegion = "etcd.aenix.io/region"
	// MetadataForcePathStyle is "true" or "false".
	MetadataForcePathStyle = "etcd.aenix.io/force-path-style"
	// MetadataCredentialsSecretName names the Secret in the Backup's namespace.
	MetadataCredentialsSecretName = "etcd.aenix.io/credentials-secret-name" //nolint:gosec // the name of a key
	// MetadataBackupName is the EtcdSnapshot's name, the object's file name without its extension.
	MetadataBackupName = "etcd.aenix.io/backup-name"
)

// Keys of Backup.spec.driverMetadata that are this project's own.
const (
	// MetadataEtcdVersion is the version that the members ran, such as 3.6.11.
	MetadataEtcdVersion = "cozy-etcd.io/etcd-version"
	// MetadataClusterID is etcd's cluster ID in hex, as EtcdCluster.status.clusterID has it.
	MetadataClusterID = "cozy-etcd.io/cluster-id"
	// MetadataClusterUID is the EtcdCluster's UID.
	MetadataClusterUID = "cozy-etcd.io/cluster-uid"
	// MetadataRevision is a revision that the copy holds at least, in decimal.
	MetadataRevision = "cozy-etcd.io/revision"
	// MetadataClusterSpec is the EtcdCluster's spec as JSON, without spec.bootstrap.
	MetadataClusterSpec = "cozy-etcd.io/cluster-spec"
)

// The document in Backup.status.underlyingResources of the Etcd strategy.
const (
	UnderlyingSnapshotKind       = "EtcdBackupSnapshot"
	UnderlyingSnapshotAPIVersion = Group + "/v1alpha1"
)
