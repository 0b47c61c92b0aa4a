package kube

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// Etcd is where an API server keeps its objects.
type Etcd struct {
	Endpoints                 string // comma-separated URLs
	CAFile, CertFile, KeyFile string // empty for plain http
	Prefix                    string // of the keys; empty means /registry
}

// startEtcd runs an etcd that never syncs its disk: it lives as long as the environment.
func (c *Cluster) startEtcd(ctx context.Context) error {
	path, err := EtcdBinary(c.opts.Bin)
	if err != nil {
		return err
	}
	client, err := c.reserve()
	if err != nil {
		return err
	}
	peer, err := c.reserve()
	if err != nil {
		return err
	}
	clientURL, peerURL := "http://"+ports.Join(client), "http://"+ports.Join(peer)
	c.etcd = &Etcd{Endpoints: clientURL}
	c.store, err = process.Start(ctx, process.Spec{
		Name: "kube-etcd", Path: path, Dir: c.opts.Dir,
		Args: []string{
			"--name=kube", "--data-dir=" + filepath.Join(c.opts.Dir, "kube-etcd"),
			"--listen-client-urls=" + clientURL, "--advertise-client-urls=" + clientURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=kube=" + peerURL,
			"--unsafe-no-fsync", "--log-level=warn",
			// One member elects itself; the default of a second is all waiting.
			"--election-timeout=250", "--heartbeat-interval=50",
		},
		Ready: process.AnswersOK(http.DefaultClient, clientURL+"/readyz"),
	})
	return err
}
