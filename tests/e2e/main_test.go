// Package e2e runs the shipped controller binary, with the rights of its chart, against the local environment.
package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
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
		assert.NotContains(t, c.LogTail(1<<20), "is forbidden: User", "the chart's rights must do")
		if t.Failed() {
			t.Logf("the controller's log ends with:\n%s", c.LogTail(16384))
		}
	})
	return c
}

// newTenant brings up an etcd of one member, which goes when the test ends.
func newTenant(t *testing.T, namespace string, interval time.Duration, values map[string]any) *harness.Tenant {
	t.Helper()
	tenant, err := platform.InstallTenant(t.Context(), namespace, interval, values)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tenant.Uninstall(context.Background())) })
	_, err = tenant.AwaitWhole(t.Context(), 1, time.Minute)
	require.NoError(t, err)
	return tenant
}

// dataStoreClient logs in with nothing but the tenant's DataStore, until the test ends.
func dataStoreClient(t *testing.T, tenant *harness.Tenant) *clientv3.Client {
	t.Helper()
	c, err := tenant.DataStoreClient(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// backUp runs a BackupJob to its end.
func backUp(t *testing.T, tenant *harness.Tenant, name string) *backupsv1alpha1.BackupJob {
	t.Helper()
	_, err := tenant.Backup(t.Context(), name)
	require.NoError(t, err)
	job, err := tenant.AwaitBackup(t.Context(), name, time.Minute)
	require.NoError(t, err)
	return job
}
