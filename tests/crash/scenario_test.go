package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// scenario is one tenant's life in its own namespace: filled, backed up, damaged, restored. The controller is killed during one of the two jobs.
type scenario struct {
	t      *testing.T
	proxy  *Proxy
	tenant *harness.Tenant
	config string // kubeconfig through the proxy
	now    *harness.Controller
}

// outcome is everything that must not depend on the kill.
type outcome struct {
	objects []string
	keys    harness.Keys
	stored  []string
	writes  []string // of the job under test, up to the kill
}

func (s *scenario) start(ctx context.Context) {
	c, err := s.tenant.StartController(ctx, "--kubeconfig="+s.config)
	require.NoError(s.t, err)
	s.now = c
}

// play runs a scenario with a kill after the n-th write of the job under test (0: no kill).
func play(t *testing.T, p *harness.Platform, job string, n int) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	proxy, err := NewProxy(p.Config, p.Token)
	require.NoError(t, err)
	defer proxy.Close()
	config, err := p.KubeconfigVia(proxy.URL)
	require.NoError(t, err)
	tenant, err := p.InstallTenant(ctx, fmt.Sprintf("crash-%s-%d", job, n), time.Hour, harness.Quick(1))
	require.NoError(t, err)
	s := &scenario{t: t, proxy: proxy, tenant: tenant, config: config}
	s.start(ctx)
	defer func() { s.now.Kill() }()
	return s.run(ctx, job, n)
}

func (s *scenario) run(ctx context.Context, job string, n int) outcome {
	_, err := s.tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(s.t, err)
	client, err := s.tenant.DataStoreClient(ctx)
	require.NoError(s.t, err)
	defer func() { _ = client.Close() }()
	require.NoError(s.t, harness.Write(ctx, client, "/registry", "good", 10))
	var o outcome
	under := func(name string, create func() error, await func() error) {
		if name != job {
			require.NoError(s.t, create())
			require.NoError(s.t, await(), s.now.LogTail(8192))
			return
		}
		s.disturb(ctx, n, create)
		require.NoError(s.t, await(), "the controller's log ends with:\n%s", s.now.LogTail(8192))
		o.writes = s.proxy.Writes()
	}
	under("backup", func() error { _, err := s.tenant.Backup(ctx, "b"); return err }, func() error { _, err := s.tenant.AwaitBackup(ctx, "b", time.Minute); return err })
	if job == "restore" {
		require.NoError(s.t, harness.Write(ctx, client, "/registry", "bad", 5))
		require.NoError(s.t, harness.Write(ctx, client, "/later", "bad", 5))
	}
	if job == "restore" {
		under("restore", func() error { _, err := s.tenant.Restore(ctx, "r", "b", nil); return err }, func() error { _, err := s.tenant.AwaitRestore(ctx, "r", 90*time.Second); return err })
	}
	o.keys, err = harness.ReadKeys(ctx, client)
	require.NoError(s.t, err)
	o.objects = s.settled(ctx)
	o.stored, err = s.tenant.S3.List(ctx, "example/"+s.tenant.Namespace+"/")
	require.NoError(s.t, err)
	for i := range o.stored {
		for _, x := range noise {
			o.stored[i] = x.pattern.ReplaceAllString(strings.ReplaceAll(o.stored[i], s.tenant.Namespace, "<namespace>"), x.as)
		}
	}
	return o
}

// disturb creates the job under test; the controller dies after its n-th write and another one takes over.
func (s *scenario) disturb(ctx context.Context, n int, create func() error) {
	victim := s.now
	killed := make(chan struct{})
	s.proxy.Arm(n, func() { victim.Kill(); close(killed) })
	require.NoError(s.t, create())
	if n == 0 {
		return
	}
	select {
	case <-killed:
	case <-time.After(time.Minute):
		s.t.Fatalf("no %d-th write within a minute; seen: %v; log:\n%s", n, s.proxy.Writes(), victim.LogTail(8192))
	}
	s.start(ctx)
}

// settled waits until nothing changes any more and dumps it.
func (s *scenario) settled(ctx context.Context) []string {
	var before, now []string
	require.Eventually(s.t, func() bool {
		before = now
		var err error
		now, err = Dump(ctx, s.tenant)
		return err == nil && before != nil && Difference(before, now) == ""
	}, 30*time.Second, time.Second, "the objects do not settle")
	return now
}
