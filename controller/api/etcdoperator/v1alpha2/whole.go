package v1alpha2

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// WholeCluster is an EtcdCluster that keeps the fields that this package does not know. Everybody who watches or caches EtcdClusters uses it, so that there
// is one cache of them.
func WholeCluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(GroupVersion.WithKind("EtcdCluster"))
	return u
}

// ClusterOf reads what this package knows of a whole EtcdCluster.
func ClusterOf(u *unstructured.Unstructured) (*EtcdCluster, error) {
	c := &EtcdCluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c); err != nil {
		return nil, fmt.Errorf("read EtcdCluster %q: %w", u.GetName(), err)
	}
	return c, nil
}
