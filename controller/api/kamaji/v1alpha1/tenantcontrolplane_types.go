package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TenantControlPlane is a tenant's Kubernetes control plane. Only what concerns its DataStore is typed.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tcp,categories=kamaji
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kubernetes.version`
// +kubebuilder:printcolumn:name="Datastore",type=string,JSONPath=`.status.storage.dataStoreName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TenantControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TenantControlPlaneSpec   `json:"spec,omitempty"`
	Status TenantControlPlaneStatus `json:"status,omitempty"`
}

// TenantControlPlaneList is a list of TenantControlPlane.
// +kubebuilder:object:root=true
type TenantControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TenantControlPlane `json:"items"`
}

// TenantControlPlaneSpec is the desired control plane. Fields that nobody here reads are kept as they are.
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.dataStore) || has(self.dataStore)",message="dataStore cannot be taken away"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.dataStoreSchema) || has(self.dataStoreSchema)",message="dataStoreSchema cannot be taken away"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.dataStoreUsername) || has(self.dataStoreUsername)",message="dataStoreUsername cannot be taken away"
// +kubebuilder:validation:XValidation:rule="has(self.networkProfile)",message="networkProfile must be set: Kamaji's own rules look into it"
type TenantControlPlaneSpec struct {
	// ControlPlane is how the API server runs.
	ControlPlane ControlPlane `json:"controlPlane"`
	// Kubernetes is what runs.
	Kubernetes KubernetesSpec `json:"kubernetes"`
	// NetworkProfile is where the API server listens. Kamaji's schema calls it optional and refuses its absence.
	// +optional
	NetworkProfile *NetworkProfile `json:"networkProfile,omitempty"`
	// DataStore names the DataStore.
	// +optional
	DataStore string `json:"dataStore,omitempty"`
	// DataStoreOverrides put single resources into other DataStores.
	// +optional
	DataStoreOverrides []DataStoreOverride `json:"dataStoreOverrides,omitempty"`
	// DataStoreSchema is the prefix in an etcd.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="dataStoreSchema cannot be changed"
	DataStoreSchema string `json:"dataStoreSchema,omitempty"`
	// DataStoreUsername is the user in an etcd.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="dataStoreUsername cannot be changed"
	DataStoreUsername string `json:"dataStoreUsername,omitempty"`
}

// ControlPlane is how the API server runs.
// +kubebuilder:pruning:PreserveUnknownFields
type ControlPlane struct {
	// Deployment of the API server.
	// +optional
	Deployment Deployment `json:"deployment,omitzero"`
	// Service of the API server.
	Service ControlPlaneService `json:"service"`
}

// Deployment of the API server.
// +kubebuilder:pruning:PreserveUnknownFields
type Deployment struct {
	// Replicas of the API server.
	// +optional
	// +kubebuilder:default=2
	Replicas *int32 `json:"replicas,omitempty"`
}

// ControlPlaneService exposes the API server.
// +kubebuilder:pruning:PreserveUnknownFields
type ControlPlaneService struct {
	// ServiceType of the Service.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	ServiceType string `json:"serviceType"`
}

// NetworkProfile is where the API server listens.
// +kubebuilder:pruning:PreserveUnknownFields
type NetworkProfile struct {
	// Address of the API server, as tenants see it.
	// +optional
	Address string `json:"address,omitempty"`
	// Port of the API server.
	// +optional
	// +kubebuilder:default=6443
	Port int32 `json:"port,omitempty"`
}

// KubernetesSpec is what runs.
// +kubebuilder:pruning:PreserveUnknownFields
type KubernetesSpec struct {
	// Version of Kubernetes.
	Version string `json:"version"`
	// Kubelet is the nodes' configuration.
	Kubelet KubeletSpec `json:"kubelet"`
}

// KubeletSpec is the nodes' configuration.
// +kubebuilder:pruning:PreserveUnknownFields
type KubeletSpec struct {
	// CGroupFS is the cgroup driver.
	// +optional
	// +kubebuilder:validation:Enum=systemd;cgroupfs
	CGroupFS string `json:"cgroupfs,omitempty"`
}

// DataStoreOverride puts one resource into another DataStore.
type DataStoreOverride struct {
	// Resource such as /events.
	// +optional
	Resource string `json:"resource,omitempty"`
	// DataStore for it.
	// +optional
	DataStore string `json:"dataStore,omitempty"`
}

// TenantControlPlaneStatus is what Kamaji reports.
// +kubebuilder:pruning:PreserveUnknownFields
type TenantControlPlaneStatus struct {
	// ObservedGeneration is the last one looked at.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Storage is where the state really lies.
	// +optional
	Storage StorageStatus `json:"storage,omitzero"`
}

// StorageStatus is where the state really lies.
type StorageStatus struct {
	// Driver of the DataStore.
	// +optional
	Driver string `json:"driver,omitempty"`
	// DataStoreName of the DataStore.
	// +optional
	DataStoreName string `json:"dataStoreName,omitempty"`
	// Config is the connection that the API server uses.
	// +optional
	Config StorageConfigStatus `json:"config,omitzero"`
	// Setup is what was made in the database.
	// +optional
	Setup StorageSetupStatus `json:"setup,omitzero"`
	// Certificate is what the API server presents.
	// +optional
	Certificate StorageCertificateStatus `json:"certificate,omitzero"`
}

// StorageConfigStatus is the connection that the API server uses.
type StorageConfigStatus struct {
	// SecretName of the connection.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// Checksum of the Secret.
	// +optional
	Checksum string `json:"checksum,omitempty"`
}

// StorageSetupStatus is what was made in the database.
type StorageSetupStatus struct {
	// Schema is the prefix in an etcd.
	// +optional
	Schema string `json:"schema,omitempty"`
	// User in the database.
	// +optional
	User string `json:"user,omitempty"`
	// Checksum of the setup.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// LastUpdate of the setup.
	// +optional
	LastUpdate *metav1.Time `json:"lastUpdate,omitempty"`
}

// StorageCertificateStatus is what the API server presents.
type StorageCertificateStatus struct {
	// SecretName of the certificate.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// Checksum of the Secret.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// LastUpdate of the certificate.
	// +optional
	LastUpdate *metav1.Time `json:"lastUpdate,omitempty"`
}
