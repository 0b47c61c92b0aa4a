// Package kube runs a real Kubernetes control plane without nodes on loopback: etcd, kube-apiserver and the few controllers of kube-controller-manager
// that make objects live and die as on a cluster.
package kube

import (
	"context"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// Options say where and how a control plane runs.
type Options struct {
	Dir   string // scratch folder; data, certificates and logs
	Bin   string // folder of the binaries
	Audit bool   // write an audit log at metadata level
	// Etcd is a foreign etcd to keep the objects in; nil starts one of its own.
	Etcd *Etcd
}

// Cluster is a running control plane.
type Cluster struct {
	Config     *rest.Config // an administrator without client-side throttling
	Kubeconfig string       // path of the same administrator's kubeconfig
	AuditLog   string       // path, empty without Options.Audit

	opts      Options
	pki       string
	port      int
	reserved  []int
	etcd      *Etcd
	store     *process.Process // nil with a foreign etcd
	apiserver *process.Process
	manager   *process.Process // nil before StartControllers
	stopOnce  sync.Once
}

// Start brings up etcd and the API server and returns when /readyz says ok. A failed start leaves nothing running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{opts: o, pki: filepath.Join(o.Dir, "pki")}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := os.MkdirAll(c.opts.Dir, 0o700); err != nil {
		return err
	}
	port, err := c.reserve()
	if err != nil {
		return err
	}
	c.port = port
	if err := c.writeIdentity(); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	c.etcd = c.opts.Etcd
	if c.etcd == nil {
		if err := c.startEtcd(ctx); err != nil {
			return err
		}
	}
	return c.startAPIServer(ctx)
}

// Stop ends every child at once: nothing that they hold is kept. It may be called more than once.
func (c *Cluster) Stop() { c.stopOnce.Do(c.stop) }

func (c *Cluster) stop() {
	for _, child := range []*process.Process{c.manager, c.apiserver, c.store} {
		if child != nil {
			child.Kill()
		}
	}
	ports.Release(c.reserved...)
}

// Address is the host:port of the API server.
func (c *Cluster) Address() string { return ports.Join(c.port) }

func (c *Cluster) reserve() (int, error) {
	port, err := ports.Free()
	if err == nil {
		c.reserved = append(c.reserved, port)
	}
	return port, err
}

// writeIdentity makes the CA, the server's certificate, the key for service account tokens and the two administrators.
func (c *Cluster) writeIdentity() error {
	ca, err := newAuthority("kubernetes")
	if err != nil {
		return err
	}
	server, err := ca.issue(pkix.Name{CommonName: "kube-apiserver"}, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	private, public, err := signingKey()
	if err != nil {
		return err
	}
	var tokens strings.Builder
	if _, err := c.user(&tokens, ca.pem, "controllers", "system:kube-controller-manager"); err != nil {
		return err
	}
	if c.Config, err = c.user(&tokens, ca.pem, "admin", "kubernetes-admin"); err != nil {
		return err
	}
	c.Kubeconfig = c.kubeconfig("admin")
	return writeFiles(c.pki, map[string][]byte{
		"ca.crt": ca.pem, "apiserver.crt": server.cert, "apiserver.key": server.key, "sa.key": private, "sa.pub": public,
		"tokens.csv": []byte(tokens.String()), "audit.yaml": []byte(auditPolicy),
	})
}

func (c *Cluster) kubeconfig(user string) string {
	return filepath.Join(c.opts.Dir, user+".kubeconfig")
}

// user makes a member of system:masters and writes its kubeconfig. It has a token: the API server would check a client certificate's chain at each request.
func (c *Cluster) user(tokens io.Writer, ca []byte, file, name string) (*rest.Config, error) {
	token := rand.Text()
	if _, err := fmt.Fprintf(tokens, "%s,%s,%s,system:masters\n", token, name, name); err != nil {
		return nil, err
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["env"] = &clientcmdapi.Cluster{Server: "https://" + c.Address(), CertificateAuthorityData: ca}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	k.Contexts["env"] = &clientcmdapi.Context{Cluster: "env", AuthInfo: name}
	k.CurrentContext = "env"
	if err := clientcmd.WriteToFile(*k, c.kubeconfig(file)); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*k, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}
