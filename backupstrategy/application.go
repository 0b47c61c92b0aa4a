package backupstrategy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Application builds what templates see as .Application where Cozystack's API does not serve the object itself: a plain Helm release. Values are the
// release's chart values and may be nil. The shape is that of the served object, so one template works in both places.
func Application(ref corev1.TypedLocalObjectReference, namespace string, values map[string]any) map[string]any {
	if values == nil {
		values = map[string]any{}
	}
	return map[string]any{
		"apiVersion": groupOrDefault(ref.APIGroup) + "/" + backupsv1alpha1.DefaultApplicationVersion,
		"kind":       ref.Kind,
		"metadata":   map[string]any{"name": ref.Name, "namespace": namespace},
		"spec":       values,
	}
}

// Values reads the chart values of a HelmRelease for Application. Whole numbers stay whole, as in the served object: 1000000 is not 1e+06.
func Values(raw *apiextensionsv1.JSON) (map[string]any, error) {
	if raw == nil {
		return nil, nil
	}
	var values map[string]any
	if err := utiljson.Unmarshal(raw.Raw, &values); err != nil {
		return nil, fmt.Errorf("spec.values is no object: %w", err)
	}
	return values, nil
}
