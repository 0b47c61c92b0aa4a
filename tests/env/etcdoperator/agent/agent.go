// Package agent plays the two programs that the operator runs in Pods from its own image: one takes a snapshot to S3, one restores a member's data folder from S3.
package agent

import (
	"context"
	"fmt"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Agent holds what a container would find in its image and its network.
type Agent struct {
	// Dial connects to a Service or member name, without port.
	Dial func(ctx context.Context, host string) (net.Conn, error)
	Bin  string // folder with etcdutl-<version>
	// Etcdutl gives the version compiled into the operator's image, which restores its own minor only. Empty means that the target image's own etcdutl is used.
	Etcdutl func() string
	// TrustAnyName and CheckHash make the agents differ from the real ones.
	TrustAnyName bool
	CheckHash    bool
}

// Run plays one container: its command, its environment and a translation of its paths. It returns what the container prints.
func (a Agent) Run(ctx context.Context, command string, env map[string]string, path func(string) string) (string, error) {
	switch command {
	case "snapshot-agent":
		return a.snapshot(ctx, env, path)
	case "restore-agent":
		return a.restore(ctx, env, path)
	default:
		return "", fmt.Errorf("unknown command %q", command)
	}
}

func store(env map[string]string) *s3.Client {
	region := env["S3_REGION"]
	if region == "" {
		region = "us-east-1"
	}
	return s3.New(s3.Options{
		Region: region, BaseEndpoint: aws.String(env["S3_ENDPOINT"]), UsePathStyle: env["S3_FORCE_PATH_STYLE"] == "true",
		Credentials:                credentials.NewStaticCredentialsProvider(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
}
