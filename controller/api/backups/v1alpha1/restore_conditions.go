package v1alpha1

// Reasons of a RestoreJob's domain conditions.
const (
	ReasonCaptured          = "Captured"
	ReasonSuspended         = "Suspended"
	ReasonSuspendedBefore   = "SuspendedBefore"
	ReasonResumed           = "Resumed"
	ReasonNoHelmRelease     = "NoHelmRelease"
	ReasonFormerClusterGone = "FormerClusterGone"
	ReasonAllMembersAgree   = "AllMembersAgree"

	ReasonDryRun                = "DryRun"
	ReasonReporting             = "Reporting"
	ReasonReported              = "Reported"
	ReasonControlPlanesLost     = "ControlPlanesLost"
	ReasonReportRefused         = "ReportRefused"
	ReasonRestartingConsumers   = "RestartingConsumers"
	ReasonConsumersRestarted    = "ConsumersRestarted"
	ReasonConsumersNotRestarted = "ConsumersNotRestarted"
	ReasonConsumersDeclined     = "ConsumersDeclined"
	ReasonDisarming             = "Disarming"
	ReasonFencing               = "Fencing"
	ReasonFenced                = "Fenced"
	ReasonFenceLifted           = "FenceLifted"
	ReasonFenceMissing          = "FenceMissing"
)

// Reasons about the way back from a restore.
const (
	ReasonSafetySnapshotOff     = "SafetySnapshotOff"
	ReasonSafetySnapshotSkipped = "SafetySnapshotSkipped"
	ReasonSafetySnapshotStored  = "SafetySnapshotStored"
	ReasonSafetySnapshotFailed  = "SafetySnapshotFailed"
	ReasonRollingBack           = "RollingBack"
	ReasonRolledBack            = "RolledBack"
	ReasonRollbackFailed        = "RollbackFailed"
	ReasonVolumesNotKept        = "VolumesNotKept"
)

// Marks on a PersistentVolume that outlives the cluster it was of.
const (
	// LabelKeptBy is the UID of the RestoreJob that keeps the volume.
	LabelKeptBy = "cozy-etcd.io/kept-by"
	// AnnotationKeptUntil is when the volume gets its former reclaim policy back, in RFC 3339.
	AnnotationKeptUntil = "cozy-etcd.io/kept-until"
	// AnnotationPriorPolicy is that reclaim policy.
	AnnotationPriorPolicy = "cozy-etcd.io/prior-reclaim-policy"
	// AnnotationKeptClaim is the UID of the claim that the volume was of.
	AnnotationKeptClaim = "cozy-etcd.io/kept-claim-uid"
)

// RestoreFinalizer keeps a RestoreJob, and the HelmRelease that it paused, until the restore has ended.
const RestoreFinalizer = "cozy-etcd.io/restore"

// UninstallFinalizer keeps a HelmRelease that a failed restore left suspended, when it is deleted later, until Flux has uninstalled it.
const UninstallFinalizer = "cozy-etcd.io/uninstall"

// Annotations of a restore.
const (
	// AnnotationRestoredBy on an EtcdCluster is the UID of the RestoreJob that created it.
	AnnotationRestoredBy = "cozy-etcd.io/restored-by"
	// AnnotationSuspendedBy on a HelmRelease is the UID of the RestoreJob that suspended it. Without it the suspension is somebody else's.
	AnnotationSuspendedBy = "cozy-etcd.io/suspended-by"
	// AnnotationUninstallSince on a HelmRelease that is being deleted is when a RestoreJob let it run again, for its uninstall.
	AnnotationUninstallSince = "cozy-etcd.io/uninstall-since"
	// AnnotationLost on a report names control planes that are not in the snapshot.
	AnnotationLost = "cozy-etcd.io/lost-control-planes"
	// AnnotationConsumers on a report is how far the restart of the consumers is that it shows.
	AnnotationConsumers = "cozy-etcd.io/consumers"
)
