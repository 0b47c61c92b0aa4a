package agent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// uidKey is the user metadata by which an object is known to belong to one EtcdSnapshot.
const uidKey = "etcd-snapshot-uid"

// Uploaded is what the agent's last line says.
type Uploaded struct {
	URI    string
	Size   int64
	SHA256 string
}

const uploadedPrefix = "snapshot uploaded: "

func (u Uploaded) line() string {
	return fmt.Sprintf("%suri=%s size=%d sha256=%s\n", uploadedPrefix, u.URI, u.Size, u.SHA256)
}

// ParseUploaded finds the agent's result in its output.
func ParseUploaded(output string) (Uploaded, bool) {
	for line := range strings.Lines(output) {
		fields, ok := strings.CutPrefix(strings.TrimSpace(line), uploadedPrefix)
		if !ok {
			continue
		}
		var u Uploaded
		rest, sum, _ := strings.Cut(fields, " sha256=")
		uri, size, _ := strings.Cut(rest, " size=")
		u.URI, u.SHA256 = strings.TrimPrefix(uri, "uri="), sum
		n, err := strconv.ParseInt(size, 10, 64)
		u.Size = n
		return u, err == nil
	}
	return Uploaded{}, false
}

// ObjectKey joins a destination's prefix and a snapshot's name as the operator does: one slash unless the prefix ends in one, nothing trimmed.
func ObjectKey(prefix, snapshot string) string {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return prefix + snapshot + ".db"
}

func (a Agent) snapshot(ctx context.Context, env map[string]string, path func(string) string) (string, error) {
	client, err := a.etcd(ctx, env, path)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	file, err := os.CreateTemp("", "snapshot-*.db")
	if err != nil {
		return "", err
	}
	defer func() { _, _ = file.Close(), os.Remove(file.Name()) }()
	stream, err := client.Snapshot(ctx)
	if err != nil {
		return "", fmt.Errorf("open the snapshot stream: %w", err)
	}
	defer func() { _ = stream.Close() }()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), stream)
	if err != nil {
		return "", fmt.Errorf("read the snapshot stream: %w", err)
	}
	key := ObjectKey(env["S3_KEY"], env["SNAPSHOT_NAME"])
	if err := upload(ctx, store(env), env["S3_BUCKET"], key, env["SNAPSHOT_UID"], file); err != nil {
		return "", err
	}
	return Uploaded{"s3://" + env["S3_BUCKET"] + "/" + key, size, hex.EncodeToString(sum.Sum(nil))}.line(), nil
}

// etcd connects lazily and waits for a connection as long as ctx lasts: a server whose certificate lacks the Service's name is dialled again and again.
func (a Agent) etcd(ctx context.Context, env map[string]string, path func(string) string) (*clientv3.Client, error) {
	config := clientv3.Config{
		Logger: zap.NewNop(), Context: ctx, Endpoints: []string{env["ETCD_ENDPOINTS"]}, Username: env["ETCD_USERNAME"], Password: env["ETCD_PASSWORD"],
		DialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				host, _, err := net.SplitHostPort(addr)
				if err != nil {
					host = addr
				}
				return a.Dial(ctx, host)
			}),
		},
	}
	if env["ETCD_TLS_CA_PATH"] != "" {
		var err error
		if config.TLS, err = a.tls(env, path); err != nil {
			return nil, err
		}
	}
	return clientv3.New(config)
}

func (a Agent) tls(env map[string]string, path func(string) string) (*tls.Config, error) {
	ca, err := os.ReadFile(path(env["ETCD_TLS_CA_PATH"]))
	if err != nil {
		return nil, fmt.Errorf("trust bundle: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("trust bundle: no certificate in ca.crt of the server Secret")
	}
	config := &tls.Config{RootCAs: roots, InsecureSkipVerify: a.TrustAnyName, MinVersion: tls.VersionTLS12} //nolint:gosec // only the mutant trusts any name
	if env["ETCD_TLS_CERT_PATH"] != "" {
		pair, err := tls.LoadX509KeyPair(path(env["ETCD_TLS_CERT_PATH"]), path(env["ETCD_TLS_KEY_PATH"]))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// upload refuses to overwrite what another snapshot wrote. It asks for the object first, so a key that may not list the bucket is refused for a new object too.
func upload(ctx context.Context, client *s3.Client, bucket, key, uid string, file *os.File) error {
	head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	var response *awshttp.ResponseError
	switch {
	case err == nil && head.Metadata[uidKey] != uid:
		return fmt.Errorf("object s3://%s/%s exists and belongs to another snapshot; refusing to overwrite it", bucket, key)
	case err != nil && (!errors.As(err, &response) || response.HTTPStatusCode() != http.StatusNotFound):
		return fmt.Errorf("look for s3://%s/%s: %w", bucket, key, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(key), Body: file, Metadata: map[string]string{uidKey: uid}})
	if err != nil {
		return fmt.Errorf("write s3://%s/%s: %w", bucket, key, err)
	}
	return nil
}
