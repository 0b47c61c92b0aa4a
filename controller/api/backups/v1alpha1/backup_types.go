package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Backup describes one stored copy of an application's data. Nobody owns it: deleting the job or the plan that made
// it leaves it alone.
//
// The kind has no status subresource: status is written together with the object.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bkp,categories=cozy-etcd
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Taken",type=date,JSONPath=`.spec.takenAt`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.artifact.sizeBytes`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.spec.driverMetadata['cozy-etcd\.io/revision']`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.driverMetadata['cozy-etcd\.io/etcd-version']`,priority=1
// +kubebuilder:printcolumn:name="URI",type=string,JSONPath=`.status.artifact.uri`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:metadata:annotations="options.cozystack.io/source.applicationRef.kind=appkind"
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupSpec   `json:"spec,omitempty"`
	Status BackupStatus `json:"status,omitempty"`
}

// BackupList is a list of Backup.
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

// BackupSpec says what was copied, when, and how.
type BackupSpec struct {
	// ApplicationRef is the application whose data was copied.
	ApplicationRef corev1.TypedLocalObjectReference `json:"applicationRef"`
	// PlanRef names the Plan behind the run, if there was one.
	// +optional
	PlanRef *corev1.LocalObjectReference `json:"planRef,omitempty"`
	// StrategyRef is the strategy that made the copy and can read it again.
	StrategyRef corev1.TypedLocalObjectReference `json:"strategyRef"`
	// TakenAt is the moment whose data the copy holds.
	TakenAt metav1.Time `json:"takenAt"`
	// DriverMetadata is what the strategy needs to find and read the copy. It holds no secrets.
	// +optional
	DriverMetadata map[string]string `json:"driverMetadata,omitempty"`
}

// BackupStatus is the state of the stored copy.
type BackupStatus struct {
	// Phase is a summary for people.
	// +optional
	Phase BackupPhase `json:"phase,omitempty"`
	// Artifact is the stored object.
	// +optional
	Artifact *BackupArtifact `json:"artifact,omitempty"`
	// UnderlyingResources is a document of the strategy's own, told apart by its kind and apiVersion; see
	// UnderlyingSnapshot for the one of the Etcd strategy.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	UnderlyingResources *runtime.RawExtension `json:"underlyingResources,omitempty"`
	// Conditions of the copy.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BackupArtifact locates a stored object and lets a reader prove that it is whole.
type BackupArtifact struct {
	// URI of the object, such as s3://bucket/key.
	URI string `json:"uri"`
	// SizeBytes of the object.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Checksum over the whole object: the algorithm, a colon, the digest in hex, such as sha256:….
	// +optional
	Checksum string `json:"checksum,omitempty"`
}

// UnderlyingSnapshot is what the Etcd strategy writes into a Backup's status.underlyingResources. It is a document
// inside another object, not a kind that the API server serves.
// +kubebuilder:object:generate=false
type UnderlyingSnapshot struct {
	// Kind is UnderlyingSnapshotKind; a reader refuses any other.
	Kind string `json:"kind"`
	// APIVersion is UnderlyingSnapshotAPIVersion; a reader refuses any other.
	APIVersion string `json:"apiVersion"`
	// Destination is the strategy's, rendered.
	Destination UnderlyingDestination `json:"destination"`
	// Parameters are the BackupClass row's.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// UnderlyingDestination holds the one kind of store that the strategy knows.
// +kubebuilder:object:generate=false
type UnderlyingDestination struct {
	S3 *UnderlyingS3 `json:"s3,omitempty"`
}

// UnderlyingS3 is a rendered S3 destination. Key is the prefix under which the snapshot was stored.
// +kubebuilder:object:generate=false
type UnderlyingS3 struct {
	Bucket               string                      `json:"bucket"`
	Endpoint             string                      `json:"endpoint"`
	Key                  string                      `json:"key,omitempty"`
	Region               string                      `json:"region,omitempty"`
	ForcePathStyle       bool                        `json:"forcePathStyle,omitempty"`
	CredentialsSecretRef corev1.LocalObjectReference `json:"credentialsSecretRef"`
}
