package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadMonitor counts a workload's Pods and tells whether enough of them run.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="MinReplicas",type=integer,JSONPath=`.spec.minReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.observedReplicas`
// +kubebuilder:printcolumn:name="Operational",type=boolean,JSONPath=`.status.operational`
type WorkloadMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WorkloadMonitorSpec   `json:"spec,omitempty"`
	Status WorkloadMonitorStatus `json:"status,omitempty"`
}

// WorkloadMonitorList is a list of WorkloadMonitor.
// +kubebuilder:object:root=true
type WorkloadMonitorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadMonitor `json:"items"`
}

// WorkloadMonitorSpec says which Pods to count.
type WorkloadMonitorSpec struct {
	// Selector of the Pods by label.
	Selector map[string]string `json:"selector"`
	// Kind shown for the workload.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Type shown for the workload.
	// +optional
	Type string `json:"type,omitempty"`
	// Version shown for the workload.
	// +optional
	Version string `json:"version,omitempty"`
	// Replicas wanted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// MinReplicas that must run for the workload to be operational.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`
}

// WorkloadMonitorStatus is what was counted.
type WorkloadMonitorStatus struct {
	// AvailableReplicas are ready.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// ObservedReplicas exist.
	// +optional
	ObservedReplicas int32 `json:"observedReplicas,omitempty"`
	// Operational tells whether enough are ready.
	// +optional
	Operational *bool `json:"operational,omitempty"`
}
