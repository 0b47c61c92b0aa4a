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
)

// RestoreFinalizer keeps a RestoreJob, and the HelmRelease that it paused, until the restore has ended.
const RestoreFinalizer = "cozy-etcd.io/restore"

// Annotations of a restore.
const (
	// AnnotationRestoredBy on an EtcdCluster is the UID of the RestoreJob that created it.
	AnnotationRestoredBy = "cozy-etcd.io/restored-by"
	// AnnotationSuspendedBy on a HelmRelease is the UID of the RestoreJob that suspended it. Without it the suspension is somebody else's.
	AnnotationSuspendedBy = "cozy-etcd.io/suspended-by"
)
