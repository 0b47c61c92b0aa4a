package chart

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/downloader"
)

var update = flag.Bool("update", false, "write Chart.lock anew after a change of the dependencies in Chart.yaml")

// copyChart copies what Helm would package of the root chart, since building dependencies moves folders about.
func copyChart(t *testing.T) string {
	t.Helper()
	loaded, err := loader.LoadDir(Root())
	require.NoError(t, err)
	dir := t.TempDir()
	for _, file := range loaded.Raw {
		path := filepath.Join(dir, file.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, file.Data, 0o600))
	}
	return dir
}

// `helm dependency build` accepts the lock; a stale digest or version fails here.
func TestUmbrellaLockIsCurrent(t *testing.T) {
	dir := copyChart(t)
	manager := &downloader.Manager{Out: &bytes.Buffer{}, ChartPath: dir, SkipUpdate: true, RepositoryConfig: filepath.Join(dir, "none"), RepositoryCache: t.TempDir()}
	if *update {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "Chart.lock")))
		require.NoError(t, manager.Update())
		lock, err := os.ReadFile(filepath.Join(dir, "Chart.lock"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(Root(), "Chart.lock"), lock, 0o600))
	}
	require.FileExists(t, filepath.Join(dir, "Chart.lock"))
	require.NoError(t, manager.Build(), "run: go test ./tests/chart -run UmbrellaLock -update")
}

// Helm packages the charts, and nothing of the controller's source.
func TestUmbrellaHoldsOnlyCharts(t *testing.T) {
	loaded, err := loader.LoadDir(Root())
	require.NoError(t, err)
	require.NoError(t, action.CheckDependencies(loaded, loaded.Metadata.Dependencies))
	for _, file := range loaded.Raw {
		parts := strings.Split(file.Name, "/")
		switch parts[0] {
		case "Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "README.md", "LICENSE":
		case "charts":
			require.NotEqual(t, "tests", parts[2], file.Name)
		default:
			require.Fail(t, "in the package", file.Name)
		}
	}
	for _, dependency := range loaded.Metadata.Dependencies {
		require.Empty(t, dependency.Repository, "a file:// dependency loads an in-tree chart twice")
	}
}

// The tenant's objects come out of the quick start as they come out of the tenant chart.
func TestUmbrellaRendersTheTenantChart(t *testing.T) {
	alone, err := Objects(Request{Values: "replicas: 5\nstorageClass: fast"})
	require.NoError(t, err)
	together, err := Objects(Request{Chart: ".", Values: "etcd: {replicas: 5, storageClass: fast}"})
	require.NoError(t, err)
	for _, object := range alone {
		require.Equal(t, object, find(t, together, object.GetKind(), object.GetName()))
	}
	require.Greater(t, len(together), len(alone), "the controller's objects")

	without, err := Objects(Request{Chart: ".", Values: "install: {controller: false}"})
	require.NoError(t, err)
	require.Len(t, without, len(alone))

	for values, want := range map[string]string{
		"replicas: 5":              "replicas",
		"etcd: {replica: 5}":       "replica",
		"install: {tenant: true}":  "tenant",
		"etcd: {replicas: 4}":      "/replicas",
		"etcd: {size: 0}":          "size",
		"install: {etcd: null}":    "etcd",
		"etcd: {version: v3.6.11}": "v3.6.11",
	} {
		_, err := Render(Request{Chart: ".", Values: values})
		require.ErrorContains(t, err, want, values)
	}
	_, err = Render(Request{Chart: ".", Values: "etcd: {enabled: true, global: {a: 1}}\netcd-controller: {enabled: true}\nglobal: {b: 2}"})
	require.NoError(t, err, "what parents with conditions of their own hand down")
	_, err = Render(Request{Chart: ".", Release: "quick"})
	require.ErrorContains(t, err, `must be installed as "etcd"`)
}

// A null takes a default away in the quick start too.
func TestUmbrellaNulls(t *testing.T) {
	_, err := Render(Request{Chart: ".", Values: "etcd: {storageClass: null, affinity: null, quotaBackendBytes: null, resources: {cpu: null}}"})
	require.NoError(t, err)
}
