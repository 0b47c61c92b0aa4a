// Package v1alpha1 holds Cozystack's backup kinds: which class backs up what, the runs and what they left.
// +kubebuilder:object:generate=true
// +groupName=backups.cozystack.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of every kind in this package.
const Group = "backups.cozystack.io"

var (
	// GroupVersion identifies the kinds of this package.
	GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}
	// SchemeBuilder collects the registration of this package's kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers this package's kinds.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&BackupClass{}, &BackupClassList{},
		&BackupJob{}, &BackupJobList{},
		&Backup{}, &BackupList{},
		&Plan{}, &PlanList{},
		&RestoreJob{}, &RestoreJobList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
