package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupClass is the administrator's answer to "how is a kind of application backed up here?". Tenants name it in
// their jobs and plans.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=bclass
// +kubebuilder:printcolumn:name="Kinds",type=string,JSONPath=`.spec.strategies[*].application.kind`
// +kubebuilder:printcolumn:name="Strategies",type=string,JSONPath=`.spec.strategies[*].strategyRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackupClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupClassSpec   `json:"spec,omitempty"`
	Status BackupClassStatus `json:"status,omitempty"`
}

// BackupClassList is a list of BackupClass.
// +kubebuilder:object:root=true
type BackupClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupClass `json:"items"`
}

// BackupClassSpec maps kinds of applications to strategies.
type BackupClassSpec struct {
	// Strategies are tried from the first to the last; the first whose application matches is taken. An application
	// that matches none cannot be backed up with this class.
	Strategies []BackupClassStrategy `json:"strategies"`
}

// BackupClassStrategy is one row of the class.
type BackupClassStrategy struct {
	// StrategyRef names the cluster-scoped strategy object that does the work.
	StrategyRef corev1.TypedLocalObjectReference `json:"strategyRef"`
	// Application tells which kind of application the row is for.
	Application ApplicationSelector `json:"application"`
	// Parameters are handed to the strategy's templates as .Parameters. They are copied into the status of each
	// Backup, which tenants can read, so they must hold no secrets.
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ApplicationSelector picks applications by kind.
type ApplicationSelector struct {
	// APIGroup of the application; apps.cozystack.io when it is not given.
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// Kind of the application, such as Etcd.
	Kind string `json:"kind"`
}

// BackupClassStatus is what is known about a class.
type BackupClassStatus struct {
	// Conditions of the class.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
