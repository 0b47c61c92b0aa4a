package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdSnapshot asks the operator for one snapshot.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EtcdSnapshotSpec   `json:"spec,omitempty"`
	Status EtcdSnapshotStatus `json:"status,omitempty"`
}

// EtcdSnapshotList is a list of EtcdSnapshot.
// +kubebuilder:object:root=true
type EtcdSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdSnapshot `json:"items"`
}

// EtcdSnapshotSpec says what to store where.
type EtcdSnapshotSpec struct {
	// ClusterRef names the EtcdCluster in the snapshot's namespace.
	ClusterRef corev1.LocalObjectReference `json:"clusterRef"`
	// Destination below which the snapshot is stored.
	Destination SnapshotLocation `json:"destination"`
}

// EtcdSnapshotPhase is the state of a snapshot.
type EtcdSnapshotPhase string

// Phases of a snapshot. The empty phase means that the operator has not looked yet.
const (
	SnapshotPending  EtcdSnapshotPhase = "Pending"
	SnapshotStarted  EtcdSnapshotPhase = "Started"
	SnapshotComplete EtcdSnapshotPhase = "Complete"
	SnapshotFailed   EtcdSnapshotPhase = "Failed"
)

// EtcdSnapshotStatus is how far it has come.
type EtcdSnapshotStatus struct {
	// Phase of the snapshot.
	// +optional
	Phase EtcdSnapshotPhase `json:"phase,omitempty"`
	// Artifact is the stored object, once there is one.
	// +optional
	Artifact *SnapshotArtifact `json:"artifact,omitempty"`
	// Conditions: one, Ready.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SnapshotArtifact is a stored object.
type SnapshotArtifact struct {
	// URI of the object, s3://bucket/key.
	URI string `json:"uri"`
	// SizeBytes of the object.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Checksum, sha256: and hex, over the whole object.
	// +optional
	Checksum string `json:"checksum,omitempty"`
}
