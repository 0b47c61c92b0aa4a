package etcd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResolver(t *testing.T) {
	var r Resolver
	for _, s := range []string{"etcd.a.svc=127.0.0.1:1", "*.etcd.a.svc=127.0.0.1:2", "*.b.svc=[::1]:3"} {
		require.NoError(t, r.Set(s))
	}
	for in, want := range map[string]string{
		"etcd.a.svc:2379":          "127.0.0.1:1",
		"etcd-x1.etcd.a.svc:2379":  "127.0.0.1:2",
		"etcd-client.b.svc:2379":   "[::1]:3",
		"m.etcd.b.svc:2379":        "[::1]:3",
		"etcd-client.a.svc:2379":   "etcd-client.a.svc:2379",
		"b.svc:2379":               "b.svc:2379",
		"not an address":           "not an address",
		"xetcd.a.svc.evil.io:2379": "xetcd.a.svc.evil.io:2379",
	} {
		require.Equal(t, want, r.Address(in), in)
	}
	require.NoError(t, r.Set("*=127.0.0.1:9"))
	require.Equal(t, "127.0.0.1:9", r.Address("anything:1"))
	for _, bad := range []string{"", "a", "=127.0.0.1:1", "a=127.0.0.1", "a*=127.0.0.1:1", "*a=127.0.0.1:1", "a.*.b=127.0.0.1:1"} {
		require.Error(t, r.Set(bad), bad)
	}
}
