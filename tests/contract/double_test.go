package contract

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
)

// startEnv brings up what the suite needs; the operator double comes with it unless a test starts its own.
func startEnv(t *testing.T, noOperator bool) *env.Env {
	t.Helper()
	e, err := env.Start(t.Context(), env.Options{Name: "contract", NoFlux: true, NoKamaji: true, NoCertManager: true, NoOperator: noOperator})
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	return e
}

func targetOf(t *testing.T, e *env.Env) *Target {
	t.Helper()
	return &Target{
		Client: e.Client, Dial: e.Front.DialContext, ClusterDomain: "cluster.local", Version: "3.6.11", OtherMinor: "3.5.35", RestoresItsMinorOnly: true,
		Store: Store{
			Inside: e.S3.Endpoint, Outside: e.S3.Endpoint, Denying: denying(t, e.S3.Endpoint), Bucket: e.S3.Bucket, Region: e.S3.Region,
			AccessKey: e.S3.AccessKey, SecretKey: e.S3.SecretKey,
		},
		// A second would do on an idle machine.
		Patience: time.Minute, Quiet: 1500 * time.Millisecond,
	}
}

// denying is an S3 address where an object that does not exist is forbidden, as it is for credentials without the right to list the bucket.
func denying(t *testing.T, endpoint string) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		// The signature covers the Host header, so that stays.
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusNotFound {
				r.StatusCode, r.Status = http.StatusForbidden, "403 Forbidden"
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

func check(t *testing.T, target *Target) {
	t.Helper()
	for _, f := range Facts(target) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			require.NoError(t, f.Run(t.Context(), target), f.Statement)
			t.Log(time.Since(began).Round(10 * time.Millisecond))
		})
	}
}

func TestDouble(t *testing.T) {
	check(t, targetOf(t, startEnv(t, false)))
}

// TestLaterOperatorRestoresOlderMinor is the one fact in which the later generation differs.
func TestLaterOperatorRestoresOlderMinor(t *testing.T) {
	e := startEnv(t, true)
	start(t, e, etcdoperator.Options{Mode: etcdoperator.Later})
	target := targetOf(t, e)
	target.RestoresItsMinorOnly, target.Version = false, "3.5.35"
	facts := Find(target, "restore-brings-keys-back")
	require.Len(t, facts, 1)
	require.NoError(t, facts[0].Run(t.Context(), target))
}

func start(t *testing.T, e *env.Env, o etcdoperator.Options) *etcdoperator.Operator {
	t.Helper()
	o.Config, o.Router, o.Bin, o.Dir = e.Config, e.Front, e.Bin, filepath.Join(e.Dir, "operator-"+string(o.Mutant))
	op, err := etcdoperator.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(op.Stop)
	return op
}

// TestMutantsAreSeen runs, against each deliberate fault of the double, the facts that it breaks: the suite is worth something only if they fail, and for that reason.
func TestMutantsAreSeen(t *testing.T) {
	e := startEnv(t, true)
	breaks := map[etcdoperator.Mutant]map[string]string{
		etcdoperator.AvailableOnlyWhenWhole: {"available-before-ready": "the first reason of Available=True is QuorumHealthy"},
		etcdoperator.NoClientService:        {"services": `services "etcd-client" not found`},
		etcdoperator.TLSNamesUnverified:     {"snapshot-hangs-without-name": "phase Complete", "peers-need-full-name": "none has crashed"},
		etcdoperator.RestoreWithHashCheck:   {"restore-takes-bare-database": "a whole cluster"},
	}
	for _, mutant := range etcdoperator.Mutants() {
		t.Run(string(mutant), func(t *testing.T) {
			target := targetOf(t, e)
			target.Patience = 15 * time.Second
			op := start(t, e, etcdoperator.Options{Mutant: mutant})
			defer op.Stop()
			require.NotEmpty(t, breaks[mutant])
			for name, message := range breaks[mutant] {
				facts := Find(target, name)
				require.Len(t, facts, 1, name)
				require.ErrorContains(t, facts[0].Run(t.Context(), target), message, name)
			}
		})
	}
}

func TestFactsHaveNamesOfTheirOwn(t *testing.T) {
	var names []string
	for _, f := range Facts(&Target{RestoresItsMinorOnly: true, OtherMinor: "x", Store: Store{Denying: "x"}}) {
		require.NotContains(t, names, f.Name)
		require.NotEmpty(t, f.Statement)
		names = append(names, f.Name)
	}
	require.True(t, slices.Contains(names, "objects"))
}
