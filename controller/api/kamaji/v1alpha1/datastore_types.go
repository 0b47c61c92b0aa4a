package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataStore is a database that tenant control planes keep their state in.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DataStore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DataStoreSpec   `json:"spec,omitempty"`
	Status DataStoreStatus `json:"status,omitempty"`
}

// DataStoreList is a list of DataStore.
// +kubebuilder:object:root=true
type DataStoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataStore `json:"items"`
}

// Driver is the kind of database.
// +kubebuilder:validation:Enum=etcd;MySQL;PostgreSQL;NATS
type Driver string

// DriverEtcd is the driver of an etcd.
const DriverEtcd Driver = "etcd"

// DataStoreSpec is how to reach the database.
// +kubebuilder:validation:XValidation:rule="self.driver != 'etcd' || (has(self.tlsConfig) && has(self.tlsConfig.certificateAuthority.privateKey) && (has(self.tlsConfig.certificateAuthority.privateKey.secretReference) || has(self.tlsConfig.certificateAuthority.privateKey.content)))",message="driver etcd needs tlsConfig.certificateAuthority.privateKey with a secretReference or content: tenants' certificates are signed with it"
// +kubebuilder:validation:XValidation:rule="self.driver != 'etcd' || (has(self.tlsConfig) && has(self.tlsConfig.clientCertificate) && (has(self.tlsConfig.clientCertificate.certificate.secretReference) || has(self.tlsConfig.clientCertificate.certificate.content)))",message="driver etcd needs tlsConfig.clientCertificate.certificate with a secretReference or content"
// +kubebuilder:validation:XValidation:rule="self.driver != 'etcd' || (has(self.tlsConfig) && has(self.tlsConfig.clientCertificate) && (has(self.tlsConfig.clientCertificate.privateKey.secretReference) || has(self.tlsConfig.clientCertificate.privateKey.content)))",message="driver etcd needs tlsConfig.clientCertificate.privateKey with a secretReference or content"
// +kubebuilder:validation:XValidation:rule="self.driver == 'etcd' || has(self.tlsConfig) || has(self.basicAuth)",message="a driver other than etcd needs tlsConfig or basicAuth"
// +kubebuilder:validation:XValidation:rule="self.driver == 'etcd' || !has(self.tlsConfig) || !has(self.tlsConfig.clientCertificate) || has(self.tlsConfig.clientCertificate.certificate.secretReference) || has(self.tlsConfig.clientCertificate.certificate.content)",message="tlsConfig.clientCertificate.certificate needs a secretReference or content"
// +kubebuilder:validation:XValidation:rule="self.driver == 'etcd' || !has(self.basicAuth) || has(self.basicAuth.username.secretReference) || has(self.basicAuth.username.content)",message="basicAuth.username needs a secretReference or content"
// +kubebuilder:validation:XValidation:rule="self.driver == 'etcd' || !has(self.basicAuth) || has(self.basicAuth.password.secretReference) || has(self.basicAuth.password.content)",message="basicAuth.password needs a secretReference or content"
type DataStoreSpec struct {
	// Driver is the kind of database. Immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="driver cannot be changed"
	Driver Driver `json:"driver"`
	// Endpoints are hosts with ports, without a scheme.
	// +kubebuilder:validation:MinItems=1
	Endpoints []string `json:"endpoints"`
	// BasicAuth is a user name and a password.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
	// TLSConfig is a trust, and a certificate to present.
	// +optional
	TLSConfig *TLSConfig `json:"tlsConfig,omitempty"`
}

// BasicAuth is a user name and a password.
type BasicAuth struct {
	// Username to log in with.
	Username ContentRef `json:"username"`
	// Password to log in with.
	Password ContentRef `json:"password"`
}

// TLSConfig is a trust, and a certificate to present.
type TLSConfig struct {
	// CertificateAuthority is the trust, and for etcd the key that signs tenants' certificates.
	CertificateAuthority CertificateAuthority `json:"certificateAuthority"`
	// ClientCertificate is presented by Kamaji itself.
	// +optional
	ClientCertificate *ClientCertificate `json:"clientCertificate,omitempty"`
}

// CertificateAuthority is a certificate and perhaps its key.
type CertificateAuthority struct {
	// Certificate in PEM.
	Certificate ContentRef `json:"certificate"`
	// PrivateKey in PEM.
	// +optional
	PrivateKey *ContentRef `json:"privateKey,omitempty"`
}

// ClientCertificate is a certificate and its key.
type ClientCertificate struct {
	// Certificate in PEM.
	Certificate ContentRef `json:"certificate"`
	// PrivateKey in PEM.
	PrivateKey ContentRef `json:"privateKey"`
}

// ContentRef is bytes, here or in a Secret.
type ContentRef struct {
	// Content itself.
	// +optional
	Content []byte `json:"content,omitempty"`
	// SecretReference to the content.
	// +optional
	SecretReference *SecretReference `json:"secretReference,omitempty"`
}

// SecretReference names one key of a Secret.
// +structType=atomic
type SecretReference struct {
	// Name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`
	// Namespace of the Secret.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// KeyPath is the key in the Secret.
	// +kubebuilder:validation:MinLength=1
	KeyPath string `json:"keyPath"`
}

// DataStoreStatus is what Kamaji reports.
type DataStoreStatus struct {
	// ObservedGeneration is the last one looked at.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready tells that everything the spec names exists.
	Ready bool `json:"ready"`
	// UsedBy lists the control planes on it as namespace/name.
	// +optional
	UsedBy []string `json:"usedBy,omitempty"`
	// Conditions of the DataStore.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DataStoreFinalizer is kept by Kamaji on a DataStore while a TenantControlPlane refers to it.
const DataStoreFinalizer = "kamaji.clastix.io/TenantControlPlane"

// Condition types of a DataStore.
const (
	// ConditionDataStoreValidation tells whether the Secrets that the spec names exist.
	ConditionDataStoreValidation = "kamaji.clastix.io/DataStoreValidation"
	// ConditionDataStoreAllowedDeletion tells whether a deletion has to wait for control planes.
	ConditionDataStoreAllowedDeletion = "kamaji.clastix.io/DataStoreAllowedDeletion"
)
