package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan makes a BackupJob at each tick of its schedule.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bplan,categories=cozy-etcd
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.backupClassName`
// +kubebuilder:printcolumn:name="Cron",type=string,JSONPath=`.spec.schedule.cron`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:metadata:annotations="options.cozystack.io/source.applicationRef.kind=appkind"
// +kubebuilder:metadata:annotations="options.cozystack.io/source.backupClassName=backupclass"
type Plan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlanSpec   `json:"spec,omitempty"`
	Status PlanStatus `json:"status,omitempty"`
}

// PlanList is a list of Plan.
// +kubebuilder:object:root=true
type PlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Plan `json:"items"`
}

// PlanSpec says what to back up, how and when.
type PlanSpec struct {
	// ApplicationRef is the application in the plan's namespace. Its group defaults to apps.cozystack.io.
	ApplicationRef corev1.TypedLocalObjectReference `json:"applicationRef"`
	// BackupClassName is handed to each job.
	BackupClassName string `json:"backupClassName"`
	// Schedule is when jobs are made.
	Schedule PlanSchedule `json:"schedule"`
}

// PlanSchedule is a recurring time.
type PlanSchedule struct {
	// Type of the schedule; cron, also when it is not given.
	// +optional
	Type PlanScheduleType `json:"type,omitempty"`
	// Cron is a five-field expression, read in UTC.
	// +optional
	Cron string `json:"cron,omitempty"`
}

// PlanStatus is how the plan fares.
type PlanStatus struct {
	// Conditions of the plan.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
