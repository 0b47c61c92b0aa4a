package plan

import (
	"os"
	"testing"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/env/shared"
)

var controlPlane = shared.ControlPlane{Name: "plan"}

func TestMain(m *testing.M) {
	flipRow()
	code := m.Run()
	controlPlane.Stop()
	os.Exit(code)
}

func platform(t *testing.T) *env.Env { t.Helper(); return controlPlane.Env(t) }

func namespace(t *testing.T) string { t.Helper(); return controlPlane.Namespace(t) }
