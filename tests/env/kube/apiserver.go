package kube

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// auditPolicy records who did what to which object once, when the answer is complete.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// roomy lets the API server, which is where most of the processor time of a test goes, collect garbage a quarter as often as by default, up to a GiB of heap.
var roomy = []string{"GOGC=400", "GOMEMLIMIT=1GiB"}

// RestartAPIServer kills the API server, as a crash would, and starts it again on its port. Watches break; objects stay.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	c.apiserver.Kill()
	return c.startAPIServer(ctx)
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	path, err := Binary(c.opts.Bin, "kube-apiserver")
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	args := append(c.apiServerArgs(), c.etcd.args()...)
	if c.opts.Audit {
		c.AuditLog = filepath.Join(c.opts.Dir, "audit.log")
		args = append(args, "--audit-log-path="+c.AuditLog, "--audit-policy-file="+filepath.Join(c.pki, "audit.yaml"), "--audit-log-maxsize=0")
	}
	c.apiserver, err = process.Start(ctx, process.Spec{
		Name: "kube-apiserver", Path: path, Dir: c.opts.Dir, Args: args, Env: roomy, StartTimeout: 2 * time.Minute,
		Ready: process.AnswersOK(client, c.Config.Host+"/readyz"),
	})
	return err
}

func (c *Cluster) apiServerArgs() []string {
	pki := func(name string) string { return filepath.Join(c.pki, name) }
	return []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.port),
		"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"), "--token-auth-file=" + pki("tokens.csv"),
		"--service-account-key-file=" + pki("sa.pub"), "--service-account-signing-key-file=" + pki("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=RBAC", "--allow-privileged=true", "--service-cluster-ip-range=10.96.0.0/16",
		// Nobody dials the Service "kubernetes" here, and its reconciler refuses loopback.
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}
}

func (e *Etcd) args() []string {
	args := []string{"--etcd-servers=" + e.Endpoints}
	if e.CAFile != "" {
		args = append(args, "--etcd-cafile="+e.CAFile, "--etcd-certfile="+e.CertFile, "--etcd-keyfile="+e.KeyFile)
	}
	if e.Prefix != "" {
		args = append(args, "--etcd-prefix="+e.Prefix)
	}
	return args
}
