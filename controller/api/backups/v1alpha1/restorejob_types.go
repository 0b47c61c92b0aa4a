package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RestoreJob is one run that puts a Backup's data back in place of an application's present data.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rjob,categories=cozy-etcd
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.spec.backupRef.name`
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.conditions[?(@.type=="Serving")].status`,priority=1
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:metadata:annotations="options.cozystack.io/source.backupRef.name=backup"
// +kubebuilder:metadata:annotations="options.cozystack.io/source.targetApplicationRef.kind=appkind"
type RestoreJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RestoreJobSpec   `json:"spec,omitempty"`
	Status RestoreJobStatus `json:"status,omitempty"`
}

// RestoreJobList is a list of RestoreJob.
// +kubebuilder:object:root=true
type RestoreJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RestoreJob `json:"items"`
}

// RestoreJobSpec says which copy goes where.
type RestoreJobSpec struct {
	// BackupRef names the Backup, in the job's namespace.
	BackupRef corev1.LocalObjectReference `json:"backupRef"`
	// TargetApplicationRef is the application to restore. Absent means the Backup's own; the Etcd strategy accepts no
	// other.
	// +optional
	TargetApplicationRef *corev1.TypedLocalObjectReference `json:"targetApplicationRef,omitempty"`
	// Options are read by the strategy that made the Backup.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Options *runtime.RawExtension `json:"options,omitempty"`
}

// RestoreJobStatus is how far the run has come.
type RestoreJobStatus struct {
	// Phase is a summary for people; the conditions decide.
	// +optional
	Phase RestoreJobPhase `json:"phase,omitempty"`
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
