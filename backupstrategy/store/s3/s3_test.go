package s3_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/s3"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/storetest"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	envs3 "github.com/cozy-etcd/cozy-etcd/tests/env/s3"
)

const part = 5 << 20

func serve(t *testing.T) *envs3.Server {
	t.Helper()
	bin := os.Getenv("COZY_ETCD_BIN")
	if bin == "" {
		bin = "../../../bin"
	}
	binary, err := filepath.Abs(filepath.Join(bin, "versitygw"))
	require.NoError(t, err)
	server, err := envs3.Start(t.Context(), envs3.Options{Dir: t.TempDir(), Binary: binary})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return server
}

func config(server *envs3.Server) s3.Config {
	return s3.Config{
		Endpoint: server.Endpoint, Bucket: server.Bucket, ForcePathStyle: true,
		AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey, PartSize: part, MaxAttempts: 2,
	}
}

// behind puts a handler between the store and the server; it returns true when it has answered itself.
func behind(t *testing.T, server *envs3.Server, handle func(w http.ResponseWriter, r *http.Request) bool) *url.URL {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	u, err := url.Parse(front.URL)
	require.NoError(t, err)
	return u
}

// A store that refuses what the SDK sends by default: checksum trailers and checksum headers.
func TestContractOnAStoreThatRefusesChecksumTrailers(t *testing.T) {
	server := serve(t)
	var puts, md5s atomic.Int64
	front := behind(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		for name := range r.Header {
			name = strings.ToLower(name)
			if name == "x-amz-trailer" || name == "x-amz-sdk-checksum-algorithm" || strings.HasPrefix(name, "x-amz-checksum-") {
				http.Error(w, "<Error><Code>InvalidArgument</Code></Error>", http.StatusBadRequest)
				return true
			}
		}
		if r.Method == http.MethodPut {
			puts.Add(1)
			if r.Header.Get("Content-Md5") != "" {
				md5s.Add(1)
			}
		}
		return false
	})
	c := config(server)
	c.Endpoint = front.String()
	storetest.Run(t, s3.New(c), 2*part)
	require.Positive(t, puts.Load())
	require.Equal(t, puts.Load(), md5s.Load(), "every body carries Content-MD5, which buckets with Object Lock ask for")
}

func TestRefusalsAreNamed(t *testing.T) {
	server := serve(t)
	require.NoError(t, s3.New(config(server)).Put(t.Context(), "there", storetest.Content([]byte("x"))))
	cases := []struct {
		name     string
		change   func(*s3.Config)
		sentinel error
		reason   string
		class    fault.Class
	}{
		{"secret", func(c *s3.Config) { c.SecretAccessKey = "wrong-secret" }, store.ErrUnauthorized, backupsv1alpha1.ReasonCredentialsRejected, fault.Terminal},
		{"access key", func(c *s3.Config) { c.AccessKeyID = "nobody-at-all" }, store.ErrUnauthorized, backupsv1alpha1.ReasonCredentialsRejected, fault.Terminal},
		{"bucket", func(c *s3.Config) { c.Bucket = "absent" }, store.ErrBucketNotFound, backupsv1alpha1.ReasonBucketNotFound, fault.Terminal},
		{"scheme", func(c *s3.Config) { c.Endpoint = strings.Replace(c.Endpoint, "http:", "https:", 1) }, store.ErrTrust, backupsv1alpha1.ReasonStoreUntrusted, fault.Terminal},
		{"nobody listens", func(c *s3.Config) { c.Endpoint = "http://127.0.0.1:1" }, store.ErrUnavailable, backupsv1alpha1.ReasonStoreUnavailable, fault.Transient},
		{"no such host", func(c *s3.Config) { c.Endpoint = "http://absent.invalid" }, store.ErrUnavailable, backupsv1alpha1.ReasonStoreUnavailable, fault.Transient},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := config(server)
			tc.change(&c)
			s := s3.New(c)
			calls := map[string]func() error{
				"head":   func() error { _, err := s.Head(t.Context(), "there"); return err },
				"get":    func() error { _, err := s.Get(t.Context(), "there", store.Range{}); return err },
				"put":    func() error { return s.Put(t.Context(), "new", storetest.Content([]byte("x"))) },
				"delete": func() error { return s.Delete(t.Context(), "there") },
			}
			for verb, call := range calls {
				err := call()
				require.ErrorIs(t, err, tc.sentinel, verb)
				require.Equal(t, tc.reason, fault.ReasonOf(err, ""), verb)
				require.Equal(t, tc.class, fault.ClassOf(err), verb)
				require.NotContains(t, err.Error(), c.SecretAccessKey)
				require.NotContains(t, err.Error(), c.AccessKeyID)
				require.ErrorContains(t, err, c.Endpoint)
			}
		})
	}
}

func TestCredentialsWithoutListBucket(t *testing.T) {
	server := serve(t)
	proxy, err := envs3.StartProxy(server.Endpoint)
	require.NoError(t, err)
	t.Cleanup(proxy.Stop)
	c := config(server)
	c.Endpoint = proxy.Endpoint
	s := s3.New(c)
	require.NoError(t, s.Put(t.Context(), "there", storetest.Content([]byte("x"))))
	require.NoError(t, store.CheckListBucket(t.Context(), s, "absent"))
	proxy.ForbidListBucket(true)

	_, err = s.Head(t.Context(), "there")
	require.NoError(t, err, "what exists can be read")
	_, err = s.Head(t.Context(), "absent")
	require.ErrorIs(t, err, store.ErrForbidden)
	require.ErrorContains(t, err, "s3:ListBucket")
	err = store.CheckListBucket(t.Context(), s, "absent")
	require.Equal(t, backupsv1alpha1.ReasonListBucketForbidden, fault.ReasonOf(err, ""))
}

func TestOutagesAreRetriedAFewTimes(t *testing.T) {
	server := serve(t)
	proxy, err := envs3.StartProxy(server.Endpoint)
	require.NoError(t, err)
	t.Cleanup(proxy.Stop)
	c := config(server)
	c.Endpoint, c.MaxAttempts = proxy.Endpoint, 3
	s := s3.New(c)
	proxy.Inject(envs3.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown", Times: 2})
	require.NoError(t, s.Put(t.Context(), "slow", storetest.Content([]byte("x"))))
	remove := proxy.Inject(envs3.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"})
	defer remove()
	before := len(proxy.Requests())
	err = s.Put(t.Context(), "slow", storetest.Content([]byte("x")))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, fault.Transient, fault.ClassOf(err))
	require.Len(t, proxy.Requests(), before+3)
}

func TestBrokenDownloadsAreErrors(t *testing.T) {
	server := serve(t)
	proxy, err := envs3.StartProxy(server.Endpoint)
	require.NoError(t, err)
	t.Cleanup(proxy.Stop)
	c := config(server)
	c.Endpoint, c.Stall = proxy.Endpoint, 200*time.Millisecond
	s := s3.New(c)
	require.NoError(t, s.Put(t.Context(), "cut", storetest.Content(storetest.Noise(100_000))))
	proxy.Inject(envs3.Fault{Match: envs3.Object(http.MethodGet, "cut"), CutAfter: 70_000, Times: 1})
	body, err := s.Get(t.Context(), "cut", store.Range{})
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "after byte 70000")
	require.Len(t, got, 70_000)
	require.NoError(t, body.Close())

	release := make(chan struct{})
	front := behind(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	})
	defer close(release)
	c.Endpoint = front.String()
	body, err = s3.New(c).Get(t.Context(), "cut", store.Range{})
	require.NoError(t, err)
	_, err = io.ReadAll(body)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "no byte came for 200ms after byte 10")
	require.NoError(t, body.Close())
}

func TestFailedUploadLeavesNoParts(t *testing.T) {
	server := serve(t)
	var aborted atomic.Bool
	front := behind(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && r.URL.Query().Get("uploadId") != "" {
			aborted.Store(true)
		}
		if r.URL.Query().Get("partNumber") != "2" {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
		return true
	})
	c := config(server)
	c.Endpoint = front.String()
	err := s3.New(c).Put(t.Context(), "parts", storetest.Content(storetest.Noise(3*part)))
	require.ErrorIs(t, err, store.ErrForbidden)
	require.ErrorContains(t, err, "s3:PutObject")
	require.True(t, aborted.Load(), "nothing else would ever remove the parts that are there")
}

func TestUntrustedCertificateIsTerminalAndNamed(t *testing.T) {
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	}))
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	defer front.Close()
	c := s3.Config{Endpoint: front.URL, Bucket: "b", ForcePathStyle: true, AccessKeyID: "a", SecretAccessKey: "s"}
	began := time.Now()
	_, err := s3.New(c).Head(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrTrust)
	require.ErrorContains(t, err, "x509")
	require.Equal(t, fault.Terminal, fault.ClassOf(err))
	require.Less(t, time.Since(began), time.Second, "a certificate does not change by trying again")

	c.Roots = x509.NewCertPool()
	require.True(t, c.Roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})))
	_, err = s3.New(c).Head(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrNotFound)

	c.Endpoint = strings.Replace(front.URL, "127.0.0.1", "localhost", 1)
	_, err = s3.New(c).Head(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrTrust)
	require.ErrorContains(t, err, "localhost")
	var verification *tls.CertificateVerificationError
	require.False(t, errors.As(err, &verification), "nothing of the SDK's error gets through")
}

// A store that repeats in its answer what the client signed with.
func TestSecretsInAnswersAreRedacted(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.Copy(w, bytes.NewBufferString("<Error><Code>Strange</Code><Message>AKIA-me \x1b[31m used hush-hush "+strings.Repeat("x", 5000)+"</Message></Error>"))
	}))
	defer front.Close()
	s := s3.New(s3.Config{Endpoint: front.URL, Bucket: "b", ForcePathStyle: true, AccessKeyID: "AKIA-me", SecretAccessKey: "hush-hush"})
	_, err := s.Get(t.Context(), "k", store.Range{})
	require.ErrorIs(t, err, store.ErrRefused)
	require.NotContains(t, err.Error(), "AKIA-me")
	require.NotContains(t, err.Error(), "hush-hush")
	require.NotContains(t, err.Error(), "\x1b")
	require.Less(t, len(err.Error()), 600)
}
