package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupJob is one run of a backup. It ends as Succeeded with a Backup, or as Failed with the reason.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bjob,categories=cozy-etcd
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.applicationRef.name`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.backupClassName`,priority=1
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.backupRef.name`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:metadata:annotations="options.cozystack.io/source.applicationRef.kind=appkind"
// +kubebuilder:metadata:annotations="options.cozystack.io/source.backupClassName=backupclass"
// +kubebuilder:metadata:annotations="options.cozystack.io/source.planRef.name=plan"
type BackupJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupJobSpec   `json:"spec,omitempty"`
	Status BackupJobStatus `json:"status,omitempty"`
}

// BackupJobList is a list of BackupJob.
// +kubebuilder:object:root=true
type BackupJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupJob `json:"items"`
}

// BackupJobSpec says what to back up and how.
type BackupJobSpec struct {
	// PlanRef names the Plan that made this job; absent for a job made by hand.
	// +optional
	PlanRef *corev1.LocalObjectReference `json:"planRef,omitempty"`
	// ApplicationRef is the application in the job's namespace. Its group defaults to apps.cozystack.io.
	ApplicationRef corev1.TypedLocalObjectReference `json:"applicationRef"`
	// BackupClassName is the class that decides the strategy. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="backupClassName cannot be changed: create another BackupJob"
	BackupClassName string `json:"backupClassName"`
}

// BackupJobStatus is how far the run has come.
type BackupJobStatus struct {
	// Phase is a summary for people; the conditions decide.
	// +optional
	Phase BackupJobPhase `json:"phase,omitempty"`
	// BackupRef names the Backup that the run left, in the same namespace.
	// +optional
	BackupRef *corev1.LocalObjectReference `json:"backupRef,omitempty"`
	// StartedAt is when the run began; its deadline counts from here.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// CompletedAt is when the run reached its final phase.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Message is the Ready condition's message.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions of the run, Ready among them.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
