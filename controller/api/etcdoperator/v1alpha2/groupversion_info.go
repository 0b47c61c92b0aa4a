// Package v1alpha2 mirrors the kinds of the cozystack etcd-operator that the controller reads and the charts install.
//
// The mirror is partial in behaviour only: every spec field is here. Whole objects that must survive a
// round trip are still handled as unstructured, because a newer operator may know more fields.
// +kubebuilder:object:generate=true
// +groupName=etcd-operator.cozystack.io
package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of every kind in this package.
const Group = "etcd-operator.cozystack.io"

var (
	// GroupVersion identifies the kinds of this package.
	GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha2"}
	// SchemeBuilder collects the registration of this package's kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers this package's kinds.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&EtcdCluster{}, &EtcdClusterList{},
		&EtcdMember{}, &EtcdMemberList{},
		&EtcdSnapshot{}, &EtcdSnapshotList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
