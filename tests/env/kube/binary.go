package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Binary finds a tool: KUBEBUILDER_ASSETS first, then bin.
func Binary(bin, name string) (string, error) {
	var tried []string
	for _, dir := range []string{os.Getenv("KUBEBUILDER_ASSETS"), bin} {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
		tried = append(tried, path)
	}
	return "", fmt.Errorf("there is no %s: build it with hack/build-tools.sh or set KUBEBUILDER_ASSETS (tried %s)", name, strings.Join(tried, ", "))
}

// EtcdBinary finds the etcd behind the API server: the one in KUBEBUILDER_ASSETS, else the newest 3.6 in bin.
func EtcdBinary(bin string) (string, error) {
	if path, err := Binary("", "etcd"); err == nil {
		return path, nil
	}
	found, err := filepath.Glob(filepath.Join(bin, "etcd-3.6.*"))
	if err != nil {
		return "", err
	}
	var newest *semver.Version
	var path string
	for _, f := range found {
		v, err := semver.StrictNewVersion(strings.TrimPrefix(filepath.Base(f), "etcd-"))
		if err != nil {
			continue
		}
		if newest == nil || v.GreaterThan(newest) {
			newest, path = v, f
		}
	}
	if path == "" {
		return "", fmt.Errorf("there is no etcd-3.6.* in %s: build it with hack/build-tools.sh etcd", bin)
	}
	return path, nil
}
