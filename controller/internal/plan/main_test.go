package plan

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
)

func TestMain(m *testing.M) {
	flipRow()
	code := m.Run()
	if shared.env != nil {
		shared.env.Stop()
	}
	os.Exit(code)
}

// shared is one control plane without doubles for the whole package, started by the first test that needs it.
var shared struct {
	once sync.Once
	env  *env.Env
	err  error
	n    int
}

func platform(t *testing.T) *env.Env {
	t.Helper()
	shared.once.Do(func() {
		shared.env, shared.err = env.Start(context.Background(), env.Options{
			Name: "plan", NoOperator: true, NoFlux: true, NoKamaji: true, NoCertManager: true, NoS3: true,
		})
	})
	require.NoError(t, shared.err)
	return shared.env
}

func namespace(t *testing.T) string {
	t.Helper()
	e := platform(t)
	shared.n++
	name := fmt.Sprintf("tenant-%d", shared.n)
	require.NoError(t, e.Namespace(t.Context(), name))
	return name
}
