package contract

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
)

func startDouble(t *testing.T, mutant etcdoperator.Mutant) *Target {
	t.Helper()
	e, err := env.Start(t.Context(), env.Options{
		Name: "contract", NoFlux: true, NoKamaji: true, NoCertManager: true, Operator: etcdoperator.Options{Mutant: mutant},
	})
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	return &Target{
		Client: e.Client, Dial: e.Front.DialContext, ClusterDomain: "cluster.local", Version: "3.6.11", OtherMinor: "3.5.35", RestoresItsMinorOnly: true,
		Store: Store{
			Inside: e.S3.Endpoint, Outside: e.S3.Endpoint, Denying: denying(t, e.S3.Endpoint), Bucket: e.S3.Bucket, Region: e.S3.Region,
			AccessKey: e.S3.AccessKey, SecretKey: e.S3.SecretKey,
		},
		Patience: 30 * time.Second, Quiet: 1500 * time.Millisecond,
	}
}

// denying is an S3 address where an object that does not exist is forbidden, as it is for credentials without the right to list the bucket.
func denying(t *testing.T, endpoint string) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Director = func(r *http.Request) { r.URL.Scheme, r.URL.Host = to.Scheme, to.Host } // the signature covers the Host header
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusNotFound {
			r.StatusCode, r.Status = http.StatusForbidden, "403 Forbidden"
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

func TestDouble(t *testing.T) {
	target := startDouble(t, "")
	for _, f := range Facts(target) {
		t.Run(f.Name, func(t *testing.T) {
			began := time.Now()
			require.NoError(t, f.Run(t.Context(), target), f.Statement)
			t.Log(time.Since(began).Round(10 * time.Millisecond))
		})
	}
}
