package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/releaseutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// installRights applies what charts/etcd-controller renders, but for the Deployment, which needs a node, and the CRDs, which the environment has.
func (p *Platform) installRights(ctx context.Context) error {
	objects, err := RenderChart(filepath.Join(p.Root, "charts", "etcd-controller"), "etcd-controller", SystemNamespace, map[string]any{"crds": map[string]any{"install": false}})
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}
	if err := p.Client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", SystemNamespace, err)
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			continue
		}
		if err := p.Apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Apply makes an object as given, server-side, as kubectl apply would.
func (p *Platform) Apply(ctx context.Context, o *unstructured.Unstructured) error {
	err := p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("harness"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s: %w", join(o.GetKind(), o.GetNamespace(), o.GetName()), err)
	}
	return nil
}

// RenderChart renders a chart as `helm template` would.
func RenderChart(path, release, namespace string, values map[string]any) ([]*unstructured.Unstructured, error) {
	ch, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", path, err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.ReleaseName, install.Namespace = release, namespace
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	rel, err := install.Run(ch, values)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	return Parse(rel.Manifest)
}

// Parse splits YAML documents into objects, in their order.
func Parse(manifest string) ([]*unstructured.Unstructured, error) {
	docs := releaseutil.SplitManifests(manifest)
	names := make([]string, 0, len(docs))
	for name := range docs {
		names = append(names, name)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(names))
	var objects []*unstructured.Unstructured
	for _, name := range names {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(docs[name]), &o.Object); err != nil {
			return nil, fmt.Errorf("YAML document %s: %w", name, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	return objects, nil
}
