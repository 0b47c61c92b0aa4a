package v1alpha2

// Labels that the operator puts on what it makes.
const (
	// LabelCluster is on members, Pods, PVCs, Services and also on the Jobs of snapshots and their Pods.
	LabelCluster = "etcd-operator.cozystack.io/cluster"
	// LabelRole is on the Pods of voters only.
	LabelRole = "etcd-operator.cozystack.io/role"
	// RoleVoter is LabelRole's one value.
	RoleVoter = "voter"
	// LabelName, LabelInstance, LabelComponent and LabelManagedBy are Kubernetes' recommended ones.
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// NameEtcd and ManagedByOperator are the values of LabelName and LabelManagedBy.
	NameEtcd          = "etcd"
	ManagedByOperator = "etcd-operator"
)

// MemberCleanupFinalizer removes a deleted EtcdMember from etcd.
const MemberCleanupFinalizer = "etcd-operator.cozystack.io/member-cleanup"

// Condition types of an EtcdCluster.
const (
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	ConditionDegraded    = "Degraded"
)

// Condition types of EtcdMember and EtcdSnapshot.
const (
	ConditionReady = "Ready"
	// ConditionVersionDrifted: a member runs another version than its spec names.
	ConditionVersionDrifted = "VersionDrifted"
)

// Reasons of Available.
const (
	// ReasonClusterDiscovered comes with True before any member is ready.
	ReasonClusterDiscovered         = "ClusterDiscovered"
	ReasonQuorumHealthy             = "QuorumHealthy"
	ReasonQuorumAvailable           = "QuorumAvailable"
	ReasonQuorumLost                = "QuorumLost"
	ReasonPaused                    = "Paused"
	ReasonClusterUnreachable        = "ClusterUnreachable"
	ReasonBootstrapFailed           = "BootstrapFailed"
	ReasonDeadlineExceeded          = "DeadlineExceeded"
	ReasonAuthRequiredNotConfigured = "AuthRequiredNotConfigured"
	ReasonAuthCredentialsRejected   = "AuthCredentialsRejected"
)

// Reasons of Progressing.
const (
	ReasonInitialSnapshot = "InitialSnapshot"
	ReasonWaitingForSeed  = "WaitingForSeed"
	ReasonSpecChanged     = "SpecChanged"
	ReasonReconciled      = "Reconciled"
)

// ReasonMembersUnhealthy is a reason of Degraded.
const ReasonMembersUnhealthy = "MembersUnhealthy"

// Reasons of an EtcdMember's conditions.
const (
	ReasonPodReady        = "PodReady"
	ReasonPodNotReady     = "PodNotReady"
	ReasonVersionMismatch = "VersionMismatch"
)

// Reasons of an EtcdSnapshot's Ready.
const (
	ReasonJobCreated       = "JobCreated"
	ReasonJobRunning       = "JobRunning"
	ReasonJobFailed        = "JobFailed"
	ReasonClusterNotFound  = "ClusterNotFound"
	ReasonSnapshotStored   = "SnapshotStored"
	ReasonSnapshotJobLost  = "SnapshotJobLost"
	ReasonAuthLatchTimeout = "AuthLatchTimeout"
)

// Keys of a Secret with S3 credentials.
const (
	AccessKeyIDKey     = "AWS_ACCESS_KEY_ID"
	SecretAccessKeyKey = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // the name of a key
)
