package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdCluster is a live etcd.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.readyMembers,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyMembers`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EtcdClusterSpec   `json:"spec,omitempty"`
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of EtcdCluster.
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}

// EtcdClusterSpec is the desired cluster. Of all its fields only Replicas reaches members that run already.
// +kubebuilder:validation:XValidation:rule="has(self.tls) == has(oldSelf.tls)",message="spec.tls can neither be added to nor taken from a cluster that exists"
// +kubebuilder:validation:XValidation:rule="!(has(self.tls) && has(oldSelf.tls)) || self.tls == oldSelf.tls",message="spec.tls cannot be changed: recreate the cluster"
// +kubebuilder:validation:XValidation:rule="has(self.auth) == has(oldSelf.auth)",message="spec.auth can neither be added to nor taken from a cluster that exists"
// +kubebuilder:validation:XValidation:rule="!(has(self.auth) && has(oldSelf.auth)) || self.auth == oldSelf.auth",message="spec.auth cannot be changed: recreate the cluster"
// +kubebuilder:validation:XValidation:rule="has(self.bootstrap) == has(oldSelf.bootstrap)",message="spec.bootstrap can neither be added to nor taken from a cluster that exists"
// +kubebuilder:validation:XValidation:rule="!(has(self.bootstrap) && has(oldSelf.bootstrap)) || self.bootstrap == oldSelf.bootstrap",message="spec.bootstrap cannot be changed: it is read at the first start only"
// +kubebuilder:validation:XValidation:rule="has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName)",message="spec.storage.storageClassName can neither be added to nor taken from a cluster that exists"
// +kubebuilder:validation:XValidation:rule="!(has(self.storage.storageClassName) && has(oldSelf.storage.storageClassName)) || self.storage.storageClassName == oldSelf.storage.storageClassName",message="spec.storage.storageClassName cannot be changed: recreate the cluster"
// +kubebuilder:validation:XValidation:rule="!(has(self.storage) && has(self.storage.medium) && self.storage.medium == 'Memory' && has(self.replicas) && self.replicas == 0)",message="a cluster with spec.storage.medium Memory cannot be parked with spec.replicas 0"
// +kubebuilder:validation:XValidation:rule="!(has(self.storage) && has(self.storage.medium) && self.storage.medium == 'Memory') || quantity(string(self.storage.size)).isGreaterThan(quantity('0'))",message="spec.storage.size must be above 0 with spec.storage.medium Memory"
// +kubebuilder:validation:XValidation:rule="!(has(self.storage) && has(self.storage.medium) && self.storage.medium == 'Memory' && has(self.bootstrap) && has(self.bootstrap.restore))",message="spec.bootstrap.restore needs persistent storage, not spec.storage.medium Memory"
// +kubebuilder:validation:XValidation:rule="!(has(self.auth) && self.auth.enabled) || (has(self.tls) && has(self.tls.client))",message="spec.auth.enabled needs spec.tls.client, as passwords must not travel in the clear"
// +kubebuilder:validation:XValidation:rule="!(has(self.auth) && self.auth.enabled) || has(self.auth.rootCredentialsSecretRef)",message="spec.auth.enabled needs spec.auth.rootCredentialsSecretRef"
type EtcdClusterSpec struct {
	// Version of etcd, three numbers.
	// +kubebuilder:validation:Pattern=`^\d+\.\d+\.\d+$`
	Version string `json:"version"`
	// Replicas is the number of members; 0 parks the cluster.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Storage of each member.
	// +optional
	// +kubebuilder:default={size: "1Gi", medium: ""}
	Storage StorageSpec `json:"storage,omitzero"`
	// Resources of each member's etcd container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Options tune etcd.
	// +optional
	Options *EtcdOptions `json:"options,omitempty"`
	// TLS of clients and peers. Immutable.
	// +optional
	TLS *TLSSpec `json:"tls,omitempty"`
	// Auth is etcd's own authentication. Immutable.
	// +optional
	Auth *AuthSpec `json:"auth,omitempty"`
	// Bootstrap says where the first member's data come from. Immutable.
	// +optional
	Bootstrap *BootstrapSpec `json:"bootstrap,omitempty"`
	// Affinity of member Pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of member Pods.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// AdditionalMetadata is put on what the operator makes.
	// +optional
	AdditionalMetadata *AdditionalMetadata `json:"additionalMetadata,omitempty"`
	// ImagePullSecrets of member Pods.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ProgressDeadlineSeconds is how long a change may take, the first start included. A seed that is not discovered in
	// time is given up for good.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// TLSSpec holds the certificates of both planes.
type TLSSpec struct {
	// Client plane: members as servers, and the operator as a client.
	// +optional
	Client *ClientTLS `json:"client,omitempty"`
	// Peer plane: members among themselves.
	// +optional
	Peer *PeerTLS `json:"peer,omitempty"`
}

// ClientTLS takes the server certificate from a Secret or from cert-manager.
// +kubebuilder:validation:XValidation:rule="has(self.serverSecretRef) != has(self.certManager)",message="tls.client takes either serverSecretRef or certManager"
// +kubebuilder:validation:XValidation:rule="!(has(self.certManager) && has(self.operatorClientSecretRef))",message="tls.client.operatorClientSecretRef does not go with certManager"
type ClientTLS struct {
	// ServerSecretRef names the members' certificate; its ca.crt is the clients' trust too.
	// +optional
	ServerSecretRef *corev1.LocalObjectReference `json:"serverSecretRef,omitempty"`
	// OperatorClientSecretRef names the operator's own certificate. Its presence makes members demand one from clients.
	// +optional
	OperatorClientSecretRef *corev1.LocalObjectReference `json:"operatorClientSecretRef,omitempty"`
	// CertManager lets the operator ask cert-manager.
	// +optional
	CertManager *ClientCertManager `json:"certManager,omitempty"`
}

// ClientCertManager names the issuers of the client plane.
type ClientCertManager struct {
	// ServerIssuerRef signs the members' certificates.
	ServerIssuerRef IssuerRef `json:"serverIssuerRef"`
	// OperatorClientIssuerRef signs the operator's certificate.
	// +optional
	OperatorClientIssuerRef *IssuerRef `json:"operatorClientIssuerRef,omitempty"`
}

// PeerTLS takes the peer certificate from a Secret or from cert-manager.
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.certManager)",message="tls.peer takes either secretRef or certManager"
type PeerTLS struct {
	// SecretRef names the members' peer certificate.
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
	// CertManager lets the operator ask cert-manager.
	// +optional
	CertManager *PeerCertManager `json:"certManager,omitempty"`
}

// PeerCertManager names the issuer of the peer plane.
type PeerCertManager struct {
	// IssuerRef signs the members' peer certificates.
	IssuerRef IssuerRef `json:"issuerRef"`
}

// IssuerRef names a cert-manager issuer.
type IssuerRef struct {
	// Name of the issuer.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Kind of the issuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	Kind string `json:"kind,omitempty"`
}

// AuthSpec turns etcd's authentication on.
type AuthSpec struct {
	// Enabled tells whether it is on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// RootCredentialsSecretRef names root's user name and password.
	// +optional
	RootCredentialsSecretRef *corev1.LocalObjectReference `json:"rootCredentialsSecretRef,omitempty"`
}

// BootstrapSpec is read at the first start only.
type BootstrapSpec struct {
	// Restore starts from a snapshot instead of empty.
	// +optional
	Restore *RestoreSpec `json:"restore,omitempty"`
}

// EtcdClusterStatus is what the operator reports. It has no observedGeneration; each condition has its own.
type EtcdClusterStatus struct {
	// ReadyMembers is not refreshed while a member is being added.
	// +optional
	ReadyMembers int32 `json:"readyMembers,omitempty"`
	// BrokenMembers is how many members the operator gave up.
	// +optional
	BrokenMembers int32 `json:"brokenMembers,omitempty"`
	// ClusterID is etcd's, in hex, set once the seed is discovered.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// ClusterToken keeps the members of different clusters apart.
	// +optional
	ClusterToken string `json:"clusterToken,omitempty"`
	// Observed is the latched target.
	// +optional
	Observed *ObservedSpec `json:"observed,omitempty"`
	// ProgressDeadline is when the operator gives up.
	// +optional
	ProgressDeadline *metav1.Time `json:"progressDeadline,omitempty"`
	// Selector of the members' Pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// AuthEnabled tells that authentication was turned on.
	// +optional
	AuthEnabled bool `json:"authEnabled,omitempty"`
	// Conditions Available, Progressing and Degraded.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ObservedSpec is the part of the spec that the operator works towards.
type ObservedSpec struct {
	// Version of etcd.
	Version string `json:"version"`
	// Replicas wanted.
	Replicas int32 `json:"replicas"`
	// Storage of new members.
	Storage StorageSpec `json:"storage"`
	// Resources of new members.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Options of new members.
	// +optional
	Options *EtcdOptions `json:"options,omitempty"`
	// Affinity of new members.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of new members.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// AdditionalMetadata of new members.
	// +optional
	AdditionalMetadata *AdditionalMetadata `json:"additionalMetadata,omitempty"`
	// ImagePullSecrets of new members.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}
