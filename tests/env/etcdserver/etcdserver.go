// Package etcdserver runs a real etcd of one member over plain http, for tests that need data and no Kubernetes.
package etcdserver

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// Server is a running member with a client of its own.
type Server struct {
	*clientv3.Client
	Address string // host:port for clients

	child *process.Process
}

// Start runs the binary until it answers reads; it dies with its parent. The data folder may hold what etcdutl restored by its defaults, as the member is called
// and addressed by these; its log is beside it. Nothing is synced to the disk. Further arguments are etcd's own.
func Start(ctx context.Context, binary, data string, args ...string) (*Server, error) {
	client, err := ports.Address()
	if err != nil {
		return nil, err
	}
	peer, err := ports.Address()
	if err != nil {
		return nil, err
	}
	child, err := process.Start(ctx, process.Spec{
		Name: filepath.Base(binary), Path: binary, Dir: filepath.Dir(data),
		Args: append([]string{
			"--name=default", "--data-dir=" + data, "--listen-client-urls=http://" + client, "--advertise-client-urls=http://" + client,
			"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://localhost:2380", "--initial-cluster=default=http://localhost:2380",
			"--unsafe-no-fsync", "--log-level=error", "--election-timeout=250", "--heartbeat-interval=50",
		}, args...),
		Ready: process.AnswersOK(http.DefaultClient, "http://"+client+"/readyz"),
	})
	if err != nil {
		return nil, err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + client}, Logger: zap.NewNop()})
	if err != nil {
		child.Kill()
		return nil, fmt.Errorf("client of the etcd at %s: %w", client, err)
	}
	return &Server{Client: c, Address: client, child: child}, nil
}

// Stop ends the member as a crash would.
func (s *Server) Stop() {
	_ = s.Close()
	s.child.Kill()
}
