package s3

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
)

func start(t *testing.T) (*Server, *Proxy, *Server) {
	bin := os.Getenv("COZY_ETCD_BIN")
	if bin == "" {
		bin = "../../../bin"
	}
	path, err := filepath.Abs(filepath.Join(bin, "versitygw"))
	require.NoError(t, err)
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Binary: path})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	p, err := StartProxy(s.Endpoint)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	through := *s
	through.Endpoint = p.Endpoint
	return s, p, &through
}

func TestProxyForwardsAndMisbehaves(t *testing.T) {
	s, p, through := start(t)
	ctx := t.Context()
	content := make([]byte, 300_000)
	require.NoError(t, through.Put(ctx, "k/one.db", content, map[string]string{"etcd-snapshot-uid": "7"}), "signatures hold through the proxy")
	got, err := s.Get(ctx, "k/one.db")
	require.NoError(t, err)
	require.Equal(t, content, got)
	require.Contains(t, p.Requests(), "PUT /backups/k/one.db")

	t.Run("cut body", func(t *testing.T) {
		remove := p.Inject(Fault{Match: Object(http.MethodGet, "k/one.db"), CutAfter: 1000})
		defer remove()
		_, err := through.Get(ctx, "k/one.db")
		require.Error(t, err)
	})
	t.Run("5xx once", func(t *testing.T) {
		p.Inject(Fault{Match: Object(http.MethodPut, "k/two.db"), Status: http.StatusServiceUnavailable, Code: "SlowDown", Times: 1})
		require.NoError(t, through.Put(ctx, "k/two.db", []byte("x"), nil), "the SDK tries again")
	})
	t.Run("delay", func(t *testing.T) {
		remove := p.Inject(Fault{Delay: 300 * time.Millisecond})
		defer remove()
		began := time.Now()
		_, err := through.Exists(ctx, "k/one.db")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	})
	t.Run("without ListBucket", func(t *testing.T) {
		p.ForbidListBucket(true)
		defer p.ForbidListBucket(false)
		_, err := through.List(ctx, "")
		require.ErrorContains(t, err, "AccessDenied")
		_, err = through.Exists(ctx, "k/absent.db")
		require.ErrorContains(t, err, "403", "an absent key looks forbidden")
		there, err := through.Exists(ctx, "k/one.db")
		require.NoError(t, err)
		require.True(t, there)
	})
	there, err := through.Exists(ctx, "k/absent.db")
	require.NoError(t, err)
	require.False(t, there)
}

func TestWrongCredentialsAreRefused(t *testing.T) {
	s, _, _ := start(t)
	other := *s
	other.SecretKey = "wrong"
	_, err := other.Client().ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(s.Bucket)})
	require.ErrorContains(t, err, "SignatureDoesNotMatch")
}
