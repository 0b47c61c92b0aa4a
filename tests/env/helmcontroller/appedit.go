package helmcontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// appPrefix marks the labels and annotations of a HelmRelease that belong to the application.
const appPrefix = "apps.cozystack.io-"

// AppEdit is how Cozystack's aggregated API behaves on an edit.
type AppEdit struct {
	// KeepSuspend carries spec.suspend over, as its newest versions do.
	KeepSuspend bool
}

// EditApplication changes the application's values as a tenant does through Cozystack's aggregated API. That API has only the HelmRelease to keep an application in and builds it anew on each edit: suspend, annotations
// without its prefix and every finalizer vanish (helm-controller puts its own back).
func EditApplication(ctx context.Context, c client.Client, namespace, name string, how AppEdit, edit func(values map[string]any)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		hr := &fluxv2.HelmRelease{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, hr); err != nil {
			return err
		}
		values := map[string]any{}
		if hr.Spec.Values != nil {
			if err := json.Unmarshal(hr.Spec.Values.Raw, &values); err != nil {
				return fmt.Errorf("spec.values: %w", err)
			}
		}
		edit(values)
		raw, err := json.Marshal(values)
		if err != nil {
			return err
		}
		hr.Spec.Values = &apiextensionsv1.JSON{Raw: raw}
		hr.Spec.Suspend = hr.Spec.Suspend && how.KeepSuspend
		hr.Finalizers, hr.OwnerReferences = nil, nil
		hr.Annotations = prefixed(hr.Annotations)
		hr.Labels = prefixed(hr.Labels)
		return c.Update(ctx, hr)
	})
}

// prefixed keeps the application's own entries and the labels that name the application.
func prefixed(m map[string]string) map[string]string {
	kept := map[string]string{}
	for k, v := range m {
		if strings.HasPrefix(k, appPrefix) || strings.HasPrefix(k, "apps.cozystack.io/") {
			kept[k] = v
		}
	}
	return kept
}
