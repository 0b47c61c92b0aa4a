package s3_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/s3"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/storetest"
)

// What stores, and what stands in front of them, answer besides what was asked for.
func TestAnswersAreToldApart(t *testing.T) {
	code := func(c string) string { return "<Error><Code>" + c + "</Code><Message>why</Message></Error>" }
	cases := []struct {
		name     string
		status   int
		body     string
		sentinel error
		advice   string
	}{
		{"an absent object", 404, code("NoSuchKey"), store.ErrNotFound, "NoSuchKey"},
		{"an ingress that does not know the host", 404, "default backend - 404", store.ErrRefused, "none of an S3 store"},
		{"a page of a web server", 404, "<html><body>no</body></html>", store.ErrRefused, "none of an S3 store"},
		{"a server of TLS", 400, "Client sent an HTTP request to an HTTPS server.\n", store.ErrRefused, "none of an S3 store"},
		{"a proxy without a store behind it", 502, "<html>bad gateway</html>", store.ErrUnavailable, "502"},
		{"a login page", 302, "<html>login</html>", store.ErrRefused, "check region and endpoint"},
		{"a bucket in another region", 301, code("PermanentRedirect"), store.ErrRefused, "PermanentRedirect: why (check region and endpoint)"},
		{"a region that is not signed", 400, code("AuthorizationHeaderMalformed"), store.ErrRefused, "check region and endpoint"},
		{"an archived object", 403, code("InvalidObjectState"), store.ErrRefused, "the object is archived"},
		{"a full bucket", 403, code("QuotaExceeded"), store.ErrRefused, "quota of the bucket"},
		{"a key that is switched off", 400, code("KMS.DisabledException"), store.ErrRefused, "KMS.DisabledException: why"},
		{"a body that was damaged on its way", 400, code("XAmzContentSHA256Mismatch"), store.ErrUnavailable, "XAmzContentSHA256Mismatch"},
		{"two writes at a time", 409, code("OperationAborted"), store.ErrUnavailable, "OperationAborted"},
		{"a full disk", 507, code("XMinioStorageFull"), store.ErrUnavailable, "507"},
		{"an upload that was cleared away", 404, code("NoSuchUpload"), store.ErrRefused, "NoSuchUpload"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer front.Close()
			s := s3.New(s3.Config{Endpoint: front.URL, Bucket: "b", ForcePathStyle: true, AccessKeyID: "a", SecretAccessKey: "s", MaxAttempts: 1})
			calls := map[string]func() error{
				"head": func() error { _, err := s.Head(t.Context(), "k"); return err },
				"get":  func() error { _, err := s.Get(t.Context(), "k", store.Range{}); return err },
				"put":  func() error { return s.Put(t.Context(), "k", storetest.Content([]byte("x"))) },
			}
			if c.sentinel != store.ErrNotFound { //nolint:errorlint // the sentinel itself
				calls["delete"] = func() error { return s.Delete(t.Context(), "k") }
			} else {
				require.NoError(t, s.Delete(t.Context(), "k"))
			}
			for verb, call := range calls {
				err := call()
				require.ErrorIs(t, err, c.sentinel, verb)
				if verb != "head" || c.status < 500 {
					require.ErrorContains(t, err, c.advice, verb)
				}
			}
		})
	}
}

// A weak ETag never matches, so one that came with HEAD must not be asked for.
func TestAWeakETagIsNotAskedFor(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-Match") != "" {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
	}))
	defer front.Close()
	s := s3.New(s3.Config{Endpoint: front.URL, Bucket: "b", ForcePathStyle: true, AccessKeyID: "a", SecretAccessKey: "s", MaxAttempts: 1})
	body, err := s.Get(t.Context(), "k", store.Range{ETag: `W/"1"`})
	require.NoError(t, err)
	require.NoError(t, body.Close())
	_, err = s.Get(t.Context(), "k", store.Range{ETag: `"1"`})
	require.ErrorIs(t, err, store.ErrChanged)
}
