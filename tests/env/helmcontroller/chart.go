package helmcontroller

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// loadChart reads the chart anew. As Flux does for chart objects and the strategy Revision, the version carries a digest of the content, so an edit of the chart is a new chart.
func (c *Controller) loadChart(hr *fluxv2.HelmRelease) (*chart.Chart, error) {
	name, revision := "", true
	if hr.Spec.ChartRef != nil {
		name = hr.Spec.ChartRef.Name
	} else if hr.Spec.Chart != nil {
		name, revision = hr.Spec.Chart.Spec.Chart, hr.Spec.Chart.Spec.ReconcileStrategy == "Revision"
	}
	c.mu.Lock()
	path := c.charts[name]
	c.mu.Unlock()
	if path == "" {
		return nil, fmt.Errorf("chart %q is not known to the environment: give its folder in Options.Charts", name)
	}
	ch, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("load chart %q: %w", name, err)
	}
	if revision {
		ch.Metadata.Version += "+" + chartDigest(ch)[:12]
	}
	return ch, nil
}

func chartDigest(ch *chart.Chart) string {
	files := append([]*chart.File{}, ch.Raw...)
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%s %d\n", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// values merges valuesFrom in its order, then the inline values.
func (c *Controller) values(ctx context.Context, hr *fluxv2.HelmRelease) (map[string]any, error) {
	merged := map[string]any{}
	for _, ref := range hr.Spec.ValuesFrom {
		raw, found, err := c.referenced(ctx, hr.Namespace, ref)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if merged, err = mergeReference(merged, ref, raw); err != nil {
			return nil, fmt.Errorf("values of %s %s: %w", ref.Kind, ref.Name, err)
		}
	}
	if hr.Spec.Values != nil {
		inline := map[string]any{}
		if err := yaml.Unmarshal(hr.Spec.Values.Raw, &inline); err != nil {
			return nil, fmt.Errorf("spec.values: %w", err)
		}
		merged = chartutil.MergeTables(inline, merged)
	}
	return merged, nil
}

func mergeReference(into map[string]any, ref fluxv2.ValuesReference, raw []byte) (map[string]any, error) {
	if ref.TargetPath != "" {
		return into, strvals.ParseInto(ref.TargetPath+"="+string(raw), into)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return nil, err
	}
	return chartutil.MergeTables(values, into), nil
}

func (c *Controller) referenced(ctx context.Context, namespace string, ref fluxv2.ValuesReference) ([]byte, bool, error) {
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	name := ref.ValuesKey
	if name == "" {
		name = chartutil.ValuesfileName
	}
	var raw []byte
	var found bool
	var err error
	if ref.Kind == "Secret" {
		s := &corev1.Secret{}
		err = c.client.Get(ctx, key, s)
		raw, found = s.Data[name]
	} else {
		m := &corev1.ConfigMap{}
		err = c.client.Get(ctx, key, m)
		var text string
		text, found = m.Data[name]
		raw = []byte(text)
	}
	switch {
	case apierrors.IsNotFound(err) && ref.Optional:
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("spec.valuesFrom: %s %s: %w", ref.Kind, ref.Name, err)
	case !found && !ref.Optional:
		return nil, false, fmt.Errorf("spec.valuesFrom: %s %s has no key %q", ref.Kind, ref.Name, name)
	}
	return raw, found, nil
}

func configDigest(values map[string]any) string {
	if len(values) == 0 {
		values = map[string]any{} // absent, null and {} are the same
	}
	b, err := json.Marshal(values) // map keys are sorted
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// originLabels puts helm-controller's two labels on every rendered object.
type originLabels struct{ name, namespace string }

// Run implements Helm's post-renderer.
func (o originLabels) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	manifests := releaseutil.SplitManifests(in.String())
	keys := make([]string, 0, len(manifests))
	for k := range manifests {
		keys = append(keys, k)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	out := &bytes.Buffer{}
	for _, k := range keys {
		obj := map[string]any{}
		if err := yaml.Unmarshal([]byte(manifests[k]), &obj); err != nil {
			return nil, fmt.Errorf("rendered manifest: %w", err)
		}
		if len(obj) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: obj}
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[fluxv2.LabelName], labels[fluxv2.LabelNamespace] = o.name, o.namespace
		u.SetLabels(labels)
		b, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "---\n%s", b)
	}
	return out, nil
}
