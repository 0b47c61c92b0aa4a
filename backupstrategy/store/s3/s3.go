// Package s3 is the S3 adapter of the object store port.
//
// It asks for checksums only where the operation requires one, in single and in multipart uploads: stores other than AWS refuse the trailers that the SDK
// sends otherwise. Integrity of an upload rests on the signed sha256 of each body and on Content-MD5, which is as old as S3 itself and satisfies buckets
// with Object Lock. Integrity of a download is the caller's: it holds the bytes against the recorded sha256, never against an ETag.
//
// Trust in the store's certificate is that of the system's roots, as in the operator's image: its S3 location has no field for a CA.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
)

// DefaultRegion is signed where none is given. Stores other than AWS accept any.
const DefaultRegion = "us-east-1"

const (
	attempts       = 4
	maxBackoff     = 5 * time.Second
	dialTimeout    = 10 * time.Second
	headerTimeout  = time.Minute
	defaultStall   = time.Minute
	defaultPart    = 16 << 20
	defaultUploads = 4
)

// Config says which bucket to talk to.
type Config struct {
	Endpoint        string // scheme://host[:port]
	Bucket          string
	Region          string // empty means DefaultRegion
	ForcePathStyle  bool
	AccessKeyID     string
	SecretAccessKey string
	CredentialsFrom string // where an administrator corrects the keys, such as `Secret "x"`, for messages; may be empty

	Roots       *x509.CertPool // trusted instead of the system's roots; nil means those
	PartSize    int64          // of a multipart upload; smaller objects go up in one request; 0 means 16 MiB, S3 wants at least 5 MiB
	Stall       time.Duration  // a download that gives no byte for so long is broken off; 0 means a minute
	MaxAttempts int            // per request; 0 means 4
}

// Store is one bucket.
type Store struct {
	client *awss3.Client
	config Config
}

var _ store.Store = (*Store)(nil)

// New makes the adapter. It makes no request.
func New(c Config) *Store {
	if c.Region == "" {
		c.Region = DefaultRegion
	}
	if c.PartSize == 0 {
		c.PartSize = defaultPart
	}
	if c.Stall == 0 {
		c.Stall = defaultStall
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = attempts
	}
	return &Store{config: c, client: awss3.New(awss3.Options{
		BaseEndpoint:               aws.String(c.Endpoint),
		Region:                     c.Region,
		UsePathStyle:               c.ForcePathStyle,
		Credentials:                credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		HTTPClient:                 httpClient(c.Roots),
		Logger:                     logging.Nop{},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = c.MaxAttempts, maxBackoff
			// The budget that the SDK shares among requests would turn a longer outage into an error that names no outage.
			o.RateLimiter = ratelimit.None
			o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(neverRetried)}, o.Retryables...)
		}),
	})}
}

// neverRetried ends the attempts at errors that a second attempt does not change.
func neverRetried(err error) aws.Ternary {
	if _, untrusted := distrust(err); untrusted {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

func httpClient(roots *x509.CertPool) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = headerTimeout
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		})
}

// Head implements store.Reader. A refusal has no body that says why, so it is followed by a request for the first byte, whose refusal has one.
func (s *Store) Head(ctx context.Context, key string) (store.Info, error) {
	out, err := s.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &s.config.Bucket, Key: &key})
	if err != nil {
		if unexplained(err) {
			if _, why := s.get(ctx, key, &awss3.GetObjectInput{Range: aws.String("bytes=0-0")}); why != nil {
				err = why
			}
		}
		return store.Info{}, s.failure(ctx, http.MethodHead, key, err)
	}
	return store.Info{
		Size: aws.ToInt64(out.ContentLength), ETag: aws.ToString(out.ETag), Modified: aws.ToTime(out.LastModified), Metadata: lower(out.Metadata),
	}, nil
}

// Get implements store.Reader.
func (s *Store) Get(ctx context.Context, key string, r store.Range) (io.ReadCloser, error) {
	in := &awss3.GetObjectInput{}
	if r.Offset > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", r.Offset))
	}
	if r.ETag != "" && !strings.HasPrefix(r.ETag, "W/") { // a weak one, as a proxy that compresses makes it, never matches
		in.IfMatch = &r.ETag
	}
	// The body outlives this call, so its context is cancelled by the body.
	bodyCtx, cancel := context.WithCancelCause(ctx)
	out, err := s.get(bodyCtx, key, in)
	if err != nil {
		cancel(nil)
		return nil, s.failure(ctx, http.MethodGet, key, err)
	}
	if r.Offset > 0 && !strings.HasPrefix(aws.ToString(out.ContentRange), fmt.Sprintf("bytes %d-", r.Offset)) {
		cancel(nil)
		_ = out.Body.Close()
		return nil, store.Failed(s.what(http.MethodGet, key), store.ErrRefused, fmt.Sprintf("it ignores the range from byte %d", r.Offset))
	}
	return newBody(s, key, r.Offset, out.Body, ctx, cancel), nil
}

func (s *Store) get(ctx context.Context, key string, in *awss3.GetObjectInput) (*awss3.GetObjectOutput, error) {
	in.Bucket, in.Key = &s.config.Bucket, &key
	return s.client.GetObject(ctx, in)
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.config.Bucket, Key: &key})
	if err == nil {
		return nil
	}
	if absent(err) {
		return nil
	}
	return s.failure(ctx, http.MethodDelete, key, err)
}

func (s *Store) what(verb, key string) string {
	return fmt.Sprintf("%s s3://%s/%s at %s", verb, s.config.Bucket, key, s.config.Endpoint)
}

func lower(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[strings.ToLower(k)] = v
	}
	return out
}
