// Package s3 runs a real S3 server as a child process and gives tests a hand in its buckets.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// Options say where the server runs and what its first bucket is called.
type Options struct {
	Dir    string // scratch folder
	Binary string // path of versitygw
	Bucket string // created at start; default "backups"
}

// Server is a running S3 server. Path-style addressing only.
type Server struct {
	Endpoint  string // http://127.0.0.1:port
	AccessKey string
	SecretKey string
	Region    string
	Bucket    string

	child *process.Process
	port  int
}

// Start runs the server and creates its first bucket. A failed start leaves nothing running.
func Start(ctx context.Context, o Options) (*Server, error) {
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Endpoint: "http://" + ports.Join(port), AccessKey: "env-access", SecretKey: "env-secret-key", Region: "us-east-1",
		Bucket: o.Bucket, port: port,
	}
	if s.Bucket == "" {
		s.Bucket = "backups"
	}
	if err := s.start(ctx, o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	data, meta := filepath.Join(o.Dir, "s3-data"), filepath.Join(o.Dir, "s3-meta")
	for _, dir := range []string{data, meta} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	s.child, err = process.Start(ctx, process.Spec{
		Name: "versitygw", Path: o.Binary, Dir: o.Dir,
		Env: []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey},
		// Metadata lies in a folder beside the data because not every temporary file system has extended attributes.
		Args:  []string{"--port", ports.Join(s.port), "--region", s.Region, "--health", "/health", "posix", "--sidecar", meta, data},
		Ready: process.AnswersOK(http.DefaultClient, s.Endpoint+"/health"),
	})
	if err != nil {
		return err
	}
	return s.CreateBucket(ctx, s.Bucket)
}

// Stop ends the server. It may be called more than once, and on a server that never ran.
func (s *Server) Stop() {
	if s.child != nil {
		s.child.Kill()
	}
	ports.Release(s.port)
	s.port = 0 // by now it may be somebody else's
}

// Client is an SDK client with the server's own credentials.
func (s *Server) Client() *awss3.Client { return s.ClientAt(s.Endpoint) }

// ClientAt is a client that dials another endpoint of the same server, such as a Proxy.
func (s *Server) ClientAt(endpoint string) *awss3.Client {
	return awss3.New(awss3.Options{
		BaseEndpoint: aws.String(endpoint), Region: s.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	})
}

// CreateBucket makes a bucket.
func (s *Server) CreateBucket(ctx context.Context, name string) error {
	if _, err := s.Client().CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		return fmt.Errorf("create bucket %s: %w", name, err)
	}
	return nil
}

// List gives the keys under a prefix in the first bucket, sorted.
func (s *Server) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	pages := awss3.NewListObjectsV2Paginator(s.Client(), &awss3.ListObjectsV2Input{Bucket: &s.Bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %s/%s: %w", s.Bucket, prefix, err)
		}
		for _, o := range page.Contents {
			keys = append(keys, aws.ToString(o.Key))
		}
	}
	return keys, nil
}

// Get reads an object of the first bucket whole.
func (s *Server) Get(ctx context.Context, key string) ([]byte, error) {
	out, err := s.Client().GetObject(ctx, &awss3.GetObjectInput{Bucket: &s.Bucket, Key: &key})
	if err != nil {
		return nil, fmt.Errorf("get %s/%s: %w", s.Bucket, key, err)
	}
	defer func() { _ = out.Body.Close() }()
	return io.ReadAll(out.Body)
}

// Put writes an object of the first bucket, with user metadata if any.
func (s *Server) Put(ctx context.Context, key string, content []byte, metadata map[string]string) error {
	_, err := s.Client().PutObject(ctx, &awss3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: bytes.NewReader(content), Metadata: metadata})
	if err != nil {
		return fmt.Errorf("put %s/%s: %w", s.Bucket, key, err)
	}
	return nil
}

// Delete removes an object of the first bucket; an absent one is no error.
func (s *Server) Delete(ctx context.Context, key string) error {
	if _, err := s.Client().DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.Bucket, Key: &key}); err != nil {
		return fmt.Errorf("delete %s/%s: %w", s.Bucket, key, err)
	}
	return nil
}

// Exists tells whether the first bucket holds the object.
func (s *Server) Exists(ctx context.Context, key string) (bool, error) {
	_, err := s.Client().HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &s.Bucket, Key: &key})
	var missing *types.NotFound
	if errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

// Key cuts the first bucket off an s3:// URI; ok is false for another bucket.
func (s *Server) Key(uri string) (key string, ok bool) {
	return strings.CutPrefix(uri, "s3://"+s.Bucket+"/")
}
