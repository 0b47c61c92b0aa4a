package front

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// backend is a TLS server that answers with its own name.
func backend(t *testing.T, name string) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name)) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// ask connects to addr with an SNI and returns who answered.
func ask(addr, sni string) (string, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := tls.DialWithDialer(&d, "tcp", addr, &tls.Config{ServerName: sni, InsecureSkipVerify: true}) //nolint:gosec // the test asks who answers, not whether to trust it
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		return "", err
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	return string(b[n-1 : n]), err
}

func start(t *testing.T) *Router {
	t.Helper()
	r, err := Start()
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	return r
}

func TestNamesReachMembers(t *testing.T) {
	r := start(t)
	r.SetService("ns", "etcd", "etcd", true)
	r.SetService("ns", "etcd", "etcd-client", true)
	r.SetMember("ns", "etcd", "etcd-a", backend(t, "a"), true)
	r.SetMember("ns", "etcd", "etcd-b", backend(t, "b"), true)
	r.SetMember("ns", "etcd", "etcd-c", backend(t, "c"), false)
	for name, want := range map[string]string{"etcd-a.etcd.ns.svc": "a", "etcd-b.etcd.ns.svc.cozy.local": "b", "etcd-c.etcd.ns.svc": "c"} {
		got, err := ask(r.Addr(), name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	seen := map[string]bool{}
	for range 4 {
		got, err := ask(r.Addr(), "etcd-client.ns.svc")
		require.NoError(t, err)
		seen[got] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true}, seen, "Services take turns among the ready members")
}

func TestNobodyAnswers(t *testing.T) {
	r := start(t)
	r.SetService("ns", "etcd", "etcd", true)
	r.SetMember("ns", "etcd", "etcd-a", backend(t, "a"), true)
	for _, name := range []string{"", "etcd-client.ns.svc", "etcd.other.svc", "etcd-z.etcd.ns.svc", "ns.svc", "etcd.ns"} {
		_, err := ask(r.Addr(), name)
		require.Error(t, err, name)
	}
	r.SetService("ns", "etcd", "etcd", false)
	_, err := ask(r.Addr(), "etcd.ns.svc")
	require.Error(t, err, "a deleted Service answers no more")
}

func TestClusterAddrNeedsNoNameAndSurvives(t *testing.T) {
	r := start(t)
	addr := r.ClusterAddr("ns", "etcd")
	_, err := ask(addr, "")
	require.Error(t, err)
	r.SetMember("ns", "etcd", "etcd-a", backend(t, "a"), true)
	got, err := ask(addr, "")
	require.NoError(t, err)
	require.Equal(t, "a", got)
	r.RemoveMember("ns", "etcd", "etcd-a")
	_, err = ask(addr, "")
	require.Error(t, err)
	r.SetMember("ns", "etcd", "etcd-b", backend(t, "b"), true)
	require.Equal(t, addr, r.ClusterAddr("ns", "etcd"))
	got, err = ask(addr, "anything")
	require.NoError(t, err)
	require.Equal(t, "b", got)
}

func TestStopEndsOpenConnections(t *testing.T) {
	r, err := Start()
	require.NoError(t, err)
	c, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	stopped := make(chan struct{})
	go func() { r.Stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(5 * time.Second):
		t.Fatal("Stop waits for a connection that says nothing")
	}
}
