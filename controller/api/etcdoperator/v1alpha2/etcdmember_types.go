package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdMember is one member. The operator makes it; it rebuilds the Pod from this spec, not from the cluster's.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Running",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdMember struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EtcdMemberSpec   `json:"spec,omitempty"`
	Status EtcdMemberStatus `json:"status,omitempty"`
}

// EtcdMemberList is a list of EtcdMember.
// +kubebuilder:object:root=true
type EtcdMemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdMember `json:"items"`
}

// EtcdMemberSpec is the desired member.
type EtcdMemberSpec struct {
	// ClusterName of the owning EtcdCluster.
	// +kubebuilder:validation:MinLength=1
	ClusterName string `json:"clusterName"`
	// ClusterToken of the owning EtcdCluster.
	ClusterToken string `json:"clusterToken"`
	// InitialCluster is etcd's flag of that name; empty on the seed of a parked cluster.
	InitialCluster string `json:"initialCluster"`
	// Bootstrap marks the seed.
	// +optional
	Bootstrap bool `json:"bootstrap,omitempty"`
	// Dormant marks the last member of a parked cluster.
	// +optional
	Dormant bool `json:"dormant,omitempty"`
	// Replicas is always 1; it is here for the scale subresource.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1
	Replicas *int32 `json:"replicas,omitempty"`
	// Version of etcd.
	// +kubebuilder:validation:Pattern=`^\d+\.\d+\.\d+$`
	Version string `json:"version"`
	// Storage of the member.
	Storage StorageSpec `json:"storage"`
	// Resources of the etcd container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Options tune etcd.
	// +optional
	Options *EtcdOptions `json:"options,omitempty"`
	// TLS as the member's Pod mounts it.
	// +optional
	TLS *MemberTLS `json:"tls,omitempty"`
	// Restore is the seed's source. It is never cleared, so each rebuild of the Pod reads the credentials again.
	// +optional
	Restore *RestoreSpec `json:"restore,omitempty"`
	// Affinity of the Pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of the Pod.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// AdditionalMetadata of the Pod.
	// +optional
	AdditionalMetadata *AdditionalMetadata `json:"additionalMetadata,omitempty"`
	// ImagePullSecrets of the Pod.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// MemberTLS is the cluster's TLS, resolved to Secrets.
type MemberTLS struct {
	// ClientServerSecretRef names the server certificate.
	// +optional
	ClientServerSecretRef *corev1.LocalObjectReference `json:"clientServerSecretRef,omitempty"`
	// ClientMTLS tells that clients must present a certificate.
	// +optional
	ClientMTLS bool `json:"clientMTLS,omitempty"`
	// PeerSecretRef names the peer certificate.
	// +optional
	PeerSecretRef *corev1.LocalObjectReference `json:"peerSecretRef,omitempty"`
	// PeerAutoTLS lets etcd make peer certificates itself.
	// +optional
	PeerAutoTLS bool `json:"peerAutoTLS,omitempty"`
}

// EtcdMemberStatus is what the operator reports.
type EtcdMemberStatus struct {
	// MemberID is etcd's, in hex.
	// +optional
	MemberID string `json:"memberID,omitempty"`
	// IsVoter tells that the member is no learner.
	// +optional
	IsVoter bool `json:"isVoter,omitempty"`
	// PodName of the present Pod.
	// +optional
	PodName string `json:"podName,omitempty"`
	// PodUID of the present Pod.
	// +optional
	PodUID string `json:"podUID,omitempty"`
	// PVCName of the data volume.
	// +optional
	PVCName string `json:"pvcName,omitempty"`
	// Version that the member runs.
	// +optional
	Version string `json:"version,omitempty"`
	// Replicas that are ready, 0 or 1.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Selector of the Pod.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Conditions, Ready among them.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
