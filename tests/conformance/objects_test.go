package conformance

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// named is an object with the place that it comes from.
type named struct {
	from string
	obj  *unstructured.Unstructured
}

// bases are the objects of testdata/bases.yaml by name.
func bases(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("testdata/bases.yaml")
	require.NoError(t, err)
	all := map[string]*unstructured.Unstructured{}
	for _, obj := range decode(t, content) {
		all[obj.GetName()] = obj
	}
	return all
}

// decode reads every object of a YAML stream.
func decode(t *testing.T, content []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := dec.Decode(obj)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(obj.Object) > 0 {
			all = append(all, obj)
		}
	}
}

func toJSON(t *testing.T, doc string) []byte {
	t.Helper()
	out, err := sigsyaml.YAMLToJSONStrict([]byte(doc))
	require.NoError(t, err, doc)
	return out
}

// merged applies a JSON merge patch here rather than on the server.
func merged(t *testing.T, obj *unstructured.Unstructured, patch string) *unstructured.Unstructured {
	t.Helper()
	var edit map[string]any
	require.NoError(t, sigsyaml.UnmarshalStrict([]byte(patch), &edit), patch)
	out := obj.DeepCopy()
	mergeInto(out.Object, edit)
	return out
}

func mergeInto(target, edit map[string]any) {
	for key, value := range edit {
		child, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap:
			into, ok := target[key].(map[string]any)
			if !ok {
				into = map[string]any{}
			}
			mergeInto(into, child)
			target[key] = into
		default:
			target[key] = value
		}
	}
}

// written is everything that the project writes and that can be had without running it: the bases, the examples, what the
// charts render, and what the product's builders make of them.
func written(t *testing.T) []named {
	t.Helper()
	var all []named
	for name, obj := range bases(t) {
		all = append(all, named{"testdata/bases.yaml: " + name, obj})
	}
	for _, file := range yamlFiles(t, filepath.Join(root(), "examples")) {
		if !strings.Contains(file, "/values/") {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			all = append(all, from(t, file, content)...)
		}
	}
	charts, err := filepath.Glob(filepath.Join(root(), "charts", "*", "Chart.yaml"))
	require.NoError(t, err)
	for _, chart := range charts {
		all = append(all, rendered(t, filepath.Dir(chart))...)
	}
	return append(all, codeWrites(t, all)...)
}

func from(t *testing.T, file string, content []byte) []named {
	t.Helper()
	var all []named
	rel, err := filepath.Rel(root(), file)
	require.NoError(t, err)
	for _, obj := range decode(t, content) {
		all = append(all, named{rel + ": " + obj.GetKind() + " " + obj.GetName(), obj})
	}
	return all
}

func yamlFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".yaml" {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// rendered is what a chart renders with its defaults and, for the tenant chart, with each of the example values.
func rendered(t *testing.T, dir string) []named {
	t.Helper()
	chart, err := loader.LoadDir(dir)
	require.NoError(t, err)
	values := []string{""}
	if chart.Name() == "etcd" {
		values = append(values, yamlFiles(t, filepath.Join(root(), "examples", "values"))...)
	}
	var all []named
	for _, file := range values {
		vals := map[string]any{}
		if file != "" {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, sigsyaml.Unmarshal(content, &vals))
		}
		install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
		install.DryRun, install.ClientOnly, install.IncludeCRDs = true, true, true
		install.KubeVersion = &chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
		install.ReleaseName, install.Namespace = chart.Name(), "default"
		release, err := install.Run(chart, vals)
		require.NoError(t, err, "%s with %s", dir, file)
		manifests := release.Manifest
		for _, hook := range release.Hooks {
			manifests += "\n---\n" + hook.Manifest
		}
		all = append(all, from(t, filepath.Join(dir, filepath.Base(file)), []byte(manifests))...)
	}
	return all
}
