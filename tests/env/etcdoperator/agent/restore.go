package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// restore fills an empty data folder from an object. On a folder that etcd has used it does nothing.
func (a Agent) restore(ctx context.Context, env map[string]string, path func(string) string) (string, error) {
	data := path(env["ETCD_DATA_DIR"])
	if _, err := os.Stat(filepath.Join(data, "member")); err == nil {
		return "data folder is initialized, nothing to restore\n", nil
	}
	version, own := env["ETCD_VERSION"], a.Etcdutl()
	if own != "" && minor(version) != minor(own) {
		return "", fmt.Errorf("cannot restore etcd %s: this operator has etcdutl %s and restores %s only", version, own, minor(own))
	}
	volume := filepath.Dir(data)
	file, fresh := filepath.Join(volume, "snapshot.db"), filepath.Join(volume, "restored")
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	if err := download(ctx, store(env), env["S3_BUCKET"], env["S3_KEY"], file); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file) }()
	if own != "" {
		version = own
	}
	args := []string{
		"snapshot", "restore", file, "--data-dir=" + fresh, "--name=" + env["ETCD_MEMBER_NAME"], "--initial-cluster=" + env["ETCD_INITIAL_CLUSTER"],
		"--initial-cluster-token=" + env["ETCD_INITIAL_CLUSTER_TOKEN"], "--initial-advertise-peer-urls=" + env["ETCD_PEER_URLS"],
	}
	if !a.CheckHash {
		args = append(args, "--skip-hash-check=true")
	}
	if err := run(ctx, process.Spec{Name: "etcdutl", Path: filepath.Join(a.Bin, "etcdutl-"+version), Dir: volume, Args: args}); err != nil {
		return "", err
	}
	if err := os.RemoveAll(data); err != nil {
		return "", err
	}
	return "restored\n", os.Rename(fresh, data)
}

func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

func download(ctx context.Context, client *s3.Client, bucket, key, to string) error {
	object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)})
	if err != nil {
		return fmt.Errorf("read s3://%s/%s: %w", bucket, key, err)
	}
	defer func() { _ = object.Body.Close() }()
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, object.Body); err != nil {
		_ = file.Close()
		return fmt.Errorf("read s3://%s/%s: %w", bucket, key, err)
	}
	return file.Close()
}

// run waits for a child to end well.
func run(ctx context.Context, spec process.Spec) error {
	child, err := process.Start(ctx, spec)
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("%s: %w: %s", spec.Name, err, child.LogTail(1024))
	}
	return nil
}
