package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdKind is the strategy's kind, as a BackupClass names it.
const EtcdKind = "Etcd"

// Etcd is the strategy that stores etcd snapshots in S3 and restores from them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=etcds,shortName=etcdstrategy
// +kubebuilder:printcolumn:name="Bucket",type=string,JSONPath=`.spec.template.destination.s3.bucket`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.template.destination.s3.endpoint`
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=`.spec.template.destination.s3.key`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Etcd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EtcdSpec   `json:"spec,omitempty"`
	Status EtcdStatus `json:"status,omitempty"`
}

// EtcdList is a list of Etcd.
// +kubebuilder:object:root=true
type EtcdList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Etcd `json:"items"`
}

// EtcdSpec is what the administrator decides.
type EtcdSpec struct {
	// Template is rendered for each job.
	Template EtcdTemplate `json:"template"`
}

// EtcdTemplate holds Go templates. Every string in it is rendered over .Application, the application object as a map,
// and .Parameters, the map of the BackupClass row. A key that is missing there is an error.
type EtcdTemplate struct {
	// Destination is where snapshots are stored.
	Destination EtcdDestination `json:"destination"`
}

// EtcdDestination is a store. S3 is the only one that a restore can read back.
// +kubebuilder:validation:XValidation:rule="has(self.s3)",message="destination.s3 must be set: it is the only store that the Etcd strategy knows"
type EtcdDestination struct {
	// S3 is a bucket and a place in it.
	S3 *EtcdS3 `json:"s3"`
}

// EtcdS3 is a place in a bucket.
type EtcdS3 struct {
	// Endpoint is the URL of the store, with http or https.
	// +kubebuilder:validation:MinLength=1
	Endpoint string `json:"endpoint"`
	// Bucket that holds the snapshots.
	// +kubebuilder:validation:MinLength=1
	Bucket string `json:"bucket"`
	// Key is the prefix of the objects' keys. Each snapshot adds a slash, if the prefix ends in none, and a name of its
	// own.
	// +optional
	Key string `json:"key,omitempty"`
	// Region of the bucket, where the store cares.
	// +optional
	Region string `json:"region,omitempty"`
	// ForcePathStyle puts the bucket into the path instead of the host name.
	// +optional
	ForcePathStyle bool `json:"forcePathStyle,omitempty"`
	// CredentialsSecretRef names a Secret in the application's namespace with AWS_ACCESS_KEY_ID and
	// AWS_SECRET_ACCESS_KEY.
	CredentialsSecretRef SecretRef `json:"credentialsSecretRef"`
}

// SecretRef names a Secret; the name is a template too.
type SecretRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// EtcdStatus is what is known about the strategy.
type EtcdStatus struct {
	// Conditions of the strategy.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
