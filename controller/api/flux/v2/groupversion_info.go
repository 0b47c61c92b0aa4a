// Package v2 mirrors the part of Flux's HelmRelease that a restore pauses and judges.
// +kubebuilder:object:generate=true
// +groupName=helm.toolkit.fluxcd.io
package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of every kind in this package.
const Group = "helm.toolkit.fluxcd.io"

var (
	// GroupVersion identifies the kinds of this package.
	GroupVersion = schema.GroupVersion{Group: Group, Version: "v2"}
	// SchemeBuilder collects the registration of this package's kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers this package's kinds.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&HelmRelease{}, &HelmReleaseList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
