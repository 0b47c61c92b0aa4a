package harness

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// exampleObject reads a file of examples/ that holds one object.
func exampleObject[T any](root string, path ...string) (*T, error) {
	objects, err := Example(root, path...)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("examples %v: %d objects, not one", path, len(objects))
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, typed); err != nil {
		return nil, fmt.Errorf("examples %v: %w", path, err)
	}
	return typed, nil
}

// toApply drops what a configuration to apply must not carry.
func toApply(raw map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(o.Object, "status")
	return o
}
