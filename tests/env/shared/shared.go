// Package shared has the environment that all tests of a package use: one control plane without doubles, so that a test plays the rest itself and can hold it
// at any moment.
package shared

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
)

// ControlPlane starts with the first test that needs it.
type ControlPlane struct {
	Name string

	once sync.Once
	env  *env.Env
	err  error
	mu   sync.Mutex
	n    int
}

// Env is the running control plane.
func (c *ControlPlane) Env(t *testing.T) *env.Env {
	t.Helper()
	c.once.Do(func() {
		c.env, c.err = env.Start(context.Background(), env.Options{
			Name: c.Name, NoOperator: true, NoFlux: true, NoKamaji: true, NoCertManager: true, NoS3: true,
		})
	})
	require.NoError(t, c.err)
	return c.env
}

// Namespace gives a test a namespace of its own.
func (c *ControlPlane) Namespace(t *testing.T) string {
	t.Helper()
	e := c.Env(t)
	c.mu.Lock()
	c.n++
	name := fmt.Sprintf("tenant-%d", c.n)
	c.mu.Unlock()
	require.NoError(t, e.Namespace(t.Context(), name))
	return name
}

// Stop is for TestMain.
func (c *ControlPlane) Stop() {
	if c.env != nil {
		c.env.Stop()
	}
}
