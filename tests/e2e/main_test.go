// Package e2e runs the shipped controller binary, with the rights of its chart, against the local environment.
package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// platform is shared: each test has namespaces of its own.
var platform *harness.Platform

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	e, err := env.Start(context.WithoutCancel(ctx), env.Options{Name: "e2e"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer e.Stop()
	if platform, err = harness.Prepare(ctx, e); err == nil {
		err = platform.InstallBackupClass(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// startController runs the shipped binary for one test; what it logged is shown if the test fails.
func startController(t *testing.T, extra ...string) *harness.Controller {
	t.Helper()
	c, err := platform.StartController(t.Context(), extra...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop(10 * time.Second)
		if t.Failed() {
			t.Logf("the controller's log ends with:\n%s", c.LogTail(16384))
		}
	})
	return c
}
