package env

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
)

// Root is the folder of the repository: the nearest one above the working folder, else above this source file, that holds tests/env.
func Root() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, dir := range starts {
		for ; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "tests", "env", "env.go")); err == nil {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("the repository is not above the working folder: run from inside it")
}

func defaultBin(root string) string {
	if bin := os.Getenv("COZY_ETCD_BIN"); bin != "" {
		return bin
	}
	return filepath.Join(root, "bin")
}

// CRDDirs are the folders of the CRDs that we own and of those that we mirror.
func CRDDirs(root string) []string {
	return []string{
		filepath.Join(root, "charts", "etcd-controller", "files", "crds"),
		filepath.Join(root, "tests", "env", "crds"),
	}
}

// Scheme is what Env.Client speaks: our kinds, the mirrors, Kubernetes' own and cert-manager's.
func Scheme() *k8sruntime.Scheme {
	s := api.NewScheme()
	utilruntime.Must(cmapi.AddToScheme(s))
	return s
}
