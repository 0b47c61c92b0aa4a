package v1alpha1

// Condition types that every job has. They follow kstatus: Ready is the outcome, Reconciling says that work goes on,
// Stalled that it cannot go on without a person.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// Condition types of a BackupJob.
const (
	// ConditionResolved: class, strategy and destination are known and valid.
	ConditionResolved = "Resolved"
	// ConditionSnapshotStored: the operator stored the snapshot and its record has been checked.
	ConditionSnapshotStored = "SnapshotStored"
)

// Condition types of a RestoreJob.
const (
	// ConditionCaptured: the live spec is in the record, whose sha256 the message holds.
	ConditionCaptured = "Captured"
	// ConditionSuspended: the HelmRelease is paused by this job.
	ConditionSuspended = "Suspended"
	// ConditionFenced: nothing but this restore can create the EtcdCluster.
	ConditionFenced = "Fenced"
	// ConditionSafetyCopied: a Backup holds the state before the restore, and the cluster could start from it.
	ConditionSafetyCopied = "SafetyCopied"
	// ConditionRolledBack: the restore failed, and the cluster has its state from before. Absent where it did not come to a rollback.
	ConditionRolledBack = "RolledBack"
	// ConditionDeleted: nothing of the former cluster is left.
	ConditionDeleted = "Deleted"
	// ConditionReported: what the restore changes stands in a ConfigMap.
	ConditionReported = "Reported"
	// ConditionConsumersRestarted: the tenants' API servers on the restored etcd have been restarted.
	ConditionConsumersRestarted = "ConsumersRestarted"
	// ConditionServing: a member of the new cluster answers with the restored revision.
	ConditionServing = "Serving"
	// ConditionWhole: every member of the new cluster is a voter and holds the same data.
	ConditionWhole = "Whole"
)

// Reasons of outcomes, for every kind of job.
const (
	ReasonSucceeded        = "Succeeded"
	ReasonFailed           = "Failed"
	ReasonProgressing      = "Progressing"
	ReasonDeadlineExceeded = "DeadlineExceeded"
	ReasonDeleted          = "Deleted"
	ReasonInternalError    = "InternalError"
)

// Reasons of waiting, for every kind of job.
const (
	ReasonWaitingForLock        = "WaitingForLock"
	ReasonWaitingForSlot        = "WaitingForSlot"
	ReasonWaitingForBackupClass = "WaitingForBackupClass"
	ReasonWaitingForStrategy    = "WaitingForStrategy"
	ReasonWaitingForQuorum      = "WaitingForQuorum"
	ReasonWaitingForCredentials = "WaitingForCredentials"
	ReasonRetrying              = "Retrying"
	// ReasonQueueLimitExceeded ends a job that waited for the lock too long.
	ReasonQueueLimitExceeded = "QueueLimitExceeded"
)

// Reasons about what an administrator wrote.
const (
	ReasonValid                    = "Valid"
	ReasonBackupClassNotFound      = "BackupClassNotFound"
	ReasonNoMatchingStrategy       = "NoMatchingStrategy"
	ReasonStrategyNotFound         = "StrategyNotFound"
	ReasonStrategyKindUnsupported  = "StrategyKindUnsupported"
	ReasonTemplateInvalid          = "TemplateInvalid"
	ReasonDestinationInvalid       = "DestinationInvalid"
	ReasonDestinationMismatch      = "DestinationMismatch"
	ReasonCredentialsSecretInvalid = "CredentialsSecretInvalid"
)

// Reasons about the application and its cluster.
const (
	ReasonApplicationUnsupported = "ApplicationUnsupported"
	ReasonApplicationNotFound    = "ApplicationNotFound"
	ReasonClusterNotFound        = "ClusterNotFound"
	ReasonClusterDeleting        = "ClusterDeleting"
	ReasonClusterParked          = "ClusterParked"
	ReasonQuorumLost             = "QuorumLost"
)

// Reasons about a snapshot and its artifact.
const (
	ReasonSnapshotPending = "SnapshotPending"
	ReasonSnapshotRunning = "SnapshotRunning"
	ReasonSnapshotFailed  = "SnapshotFailed"
	ReasonSnapshotGone    = "SnapshotGone"
	ReasonSnapshotForeign = "SnapshotForeign"
	ReasonSnapshotStored  = "SnapshotStored"
	ReasonArtifactInvalid = "ArtifactInvalid"
	ReasonBackupExists    = "BackupExists"
	ReasonBackupCreated   = "BackupCreated"
)

// Reasons of a RestoreJob.
const (
	ReasonBackupNotFound         = "BackupNotFound"
	ReasonBackupNotReady         = "BackupNotReady"
	ReasonBackupUnreadable       = "BackupUnreadable"
	ReasonOptionsInvalid         = "OptionsInvalid"
	ReasonTargetUnsupported      = "TargetUnsupported"
	ReasonVersionUnsupported     = "VersionUnsupported"
	ReasonSpecUnavailable        = "SpecUnavailable"
	ReasonRecreateRefused        = "RecreateRefused"
	ReasonReleaseUnsafe          = "ReleaseUnsafe"
	ReasonCapturing              = "Capturing"
	ReasonSuspending             = "Suspending"
	ReasonDeleting               = "Deleting"
	ReasonWaitingForDeletion     = "WaitingForDeletion"
	ReasonRecreating             = "Recreating"
	ReasonWaitingForMembers      = "WaitingForMembers"
	ReasonProving                = "Proving"
	ReasonPreparing              = "Preparing"
	ReasonVerifying              = "Verifying"
	ReasonResuming               = "Resuming"
	ReasonBootstrapFailed        = "BootstrapFailed"
	ReasonForeignCluster         = "ForeignCluster"
	ReasonDataMismatch           = "DataMismatch"
	ReasonIncomplete             = "Incomplete"
	ReasonAborted                = "Aborted"
	ReasonUninstalling           = "Uninstalling"
	ReasonUninstallLeft          = "UninstallLeft"
	ReasonManualActionRequired   = "ManualActionRequired"
	ReasonRestoredRevisionServed = "RestoredRevisionServed"
)

// Reasons about an object store.
const (
	ReasonObjectNotFound      = "ObjectNotFound"
	ReasonObjectForbidden     = "ObjectForbidden"
	ReasonObjectChanged       = "ObjectChanged"
	ReasonBucketNotFound      = "BucketNotFound"
	ReasonListBucketForbidden = "ListBucketForbidden"
	ReasonCredentialsRejected = "CredentialsRejected"
	ReasonStoreUnavailable    = "StoreUnavailable"
	ReasonStoreUntrusted      = "StoreUntrusted"
	ReasonStoreRefused        = "StoreRefused"
)

// Reasons about what is in an artifact, and about making a copy of it ready.
const (
	ReasonArtifactSizeMismatch     = "ArtifactSizeMismatch"
	ReasonArtifactTruncated        = "ArtifactTruncated"
	ReasonArtifactChecksumMismatch = "ArtifactChecksumMismatch"
	ReasonArtifactHashMismatch     = "ArtifactHashMismatch"
	ReasonArtifactBroken           = "ArtifactBroken"
	ReasonScratchTooSmall          = "ScratchTooSmall"
	ReasonScratchUnusable          = "ScratchUnusable"
	ReasonToolMissing              = "ToolMissing"
	ReasonPrepareFailed            = "PrepareFailed"
	ReasonPreparedObjectLeft       = "PreparedObjectLeft"
)

// Reasons why a snapshot does not fit a cluster. A version that does not fit is VersionUnsupported.
const (
	ReasonQuotaTooSmall  = "QuotaTooSmall"
	ReasonVolumeTooSmall = "VolumeTooSmall"
	ReasonAuthMismatch   = "AuthMismatch"
	ReasonPasswordWrong  = "PasswordWrong"
	ReasonCorruptAlarm   = "CorruptAlarm"
)

// Reasons of a Plan.
const (
	ReasonScheduled       = "Scheduled"
	ReasonScheduleInvalid = "ScheduleInvalid"
	ReasonRunSkipped      = "RunSkipped"
	ReasonRunMissed       = "RunMissed"
)
