// Package chart renders the charts of this repository through Helm's SDK, without a cluster.
package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Root is the repository's root directory, found from this source file.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Request is one `helm template`: Release and Namespace default to etcd and tenant-a, Values is YAML as a user would write it.
type Request struct {
	Chart      string // directory relative to Root; default charts/etcd
	Release    string
	Namespace  string
	Values     string
	SkipSchema bool
	Kinds      []string // group/version/Kind that a server would serve; none where there is no server
}

// Render gives the release as Helm would store it.
func Render(r Request) (*release.Release, error) {
	dir := r.Chart
	if dir == "" {
		dir = "charts/etcd"
	}
	loaded, err := loader.Load(filepath.Join(Root(), dir))
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues([]byte(r.Values))
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ClientOnly, install.DryRun, install.SkipSchemaValidation = true, true, r.SkipSchema
	install.ReleaseName, install.Namespace = or(r.Release, "etcd"), or(r.Namespace, "tenant-a")
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	install.APIVersions = r.Kinds
	return install.Run(loaded, values)
}

// Objects is Render's result as objects, hooks included.
func Objects(r Request) ([]*unstructured.Unstructured, error) {
	rendered, err := Render(r)
	if err != nil {
		return nil, err
	}
	var manifests strings.Builder
	manifests.WriteString(rendered.Manifest)
	for _, hook := range rendered.Hooks {
		manifests.WriteString("\n---\n" + hook.Manifest)
	}
	return decode(manifests.String())
}

func decode(manifests string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// probe renders one template of the caller's with the helpers of charts/etcd.
func probe(template string, values map[string]any) (string, error) {
	loaded, err := loader.Load(filepath.Join(Root(), "charts/etcd"))
	if err != nil {
		return "", err
	}
	helpers := loaded.Templates[:0]
	for _, file := range loaded.Templates {
		if strings.HasSuffix(file.Name, ".tpl") {
			helpers = append(helpers, file)
		}
	}
	loaded.Templates = append(helpers, &chart.File{Name: "templates/probe", Data: []byte(template)})
	rendered, err := engine.Render(loaded, chartutil.Values{"Values": values})
	return rendered["etcd/templates/probe"], err
}

// parseYAMLScalar is a scalar as Kubernetes' JSON number or string would spell it.
func parseYAMLScalar(text string) (string, error) {
	var value json.RawMessage
	if err := sigsyaml.Unmarshal([]byte(text), &value); err != nil {
		return "", err
	}
	var s string
	if err := json.Unmarshal(value, &s); err == nil {
		return s, nil
	}
	return string(value), nil
}
