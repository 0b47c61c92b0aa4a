// Package harness drives the product in the local environment as a platform would: the shipped binary with the rights of its chart, tenants installed
// through Flux, jobs as tenants write them.
package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// SystemNamespace is where the controller runs.
const SystemNamespace = "cozy-etcd-system"

// Platform is an environment with the controller's chart installed in it. The controller itself is a child process with the chart's ServiceAccount.
type Platform struct {
	*env.Env
	Root   string
	Binary string
	Token  string // of the controller's ServiceAccount

	kubeconfig string
	mu         sync.Mutex
	starts     int
}

// Prepare installs the platform chart's rights into a running environment and builds the controller.
func Prepare(ctx context.Context, e *env.Env) (*Platform, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	p := &Platform{Env: e, Root: root, Binary: filepath.Join(e.Dir, "etcd-controller")}
	if err := p.build(ctx); err != nil {
		return nil, err
	}
	if err := p.installRights(ctx); err != nil {
		return nil, err
	}
	return p, p.writeKubeconfig(ctx)
}

func (p *Platform) build(ctx context.Context) error {
	if path := os.Getenv("COZY_ETCD_CONTROLLER"); path != "" {
		p.Binary = path
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", p.Binary, "./controller/cmd/etcd-controller")
	cmd.Dir = p.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the controller: %w\n%s", err, out)
	}
	return nil
}

// writeKubeconfig gives the child the token of the chart's ServiceAccount, so that a missing right fails here and not on a cluster.
func (p *Platform) writeKubeconfig(ctx context.Context) error {
	hours := int64(12 * 3600)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: "etcd-controller"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
	if err := p.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("token of the controller's ServiceAccount: %w", err)
	}
	p.Token = request.Status.Token
	p.kubeconfig = filepath.Join(p.Dir, "controller.kubeconfig")
	return p.write(p.kubeconfig, &clientcmdapi.Cluster{Server: p.Config.Host, CertificateAuthorityData: p.Config.CAData, CertificateAuthority: p.Config.CAFile})
}

// KubeconfigVia writes a kubeconfig of the controller's identity that goes through a proxy on loopback. Its path is for --kubeconfig.
func (p *Platform) KubeconfigVia(url string) (string, error) {
	file := filepath.Join(p.Dir, "controller-via-proxy.kubeconfig")
	return file, p.write(file, &clientcmdapi.Cluster{Server: url})
}

func (p *Platform) write(file string, cluster *clientcmdapi.Cluster) error {
	k := clientcmdapi.NewConfig()
	k.Clusters["env"] = cluster
	k.AuthInfos["controller"] = &clientcmdapi.AuthInfo{Token: p.Token}
	k.Contexts["env"] = &clientcmdapi.Context{Cluster: "env", AuthInfo: "controller", Namespace: SystemNamespace}
	k.CurrentContext = "env"
	return clientcmd.WriteToFile(*k, file)
}

// Controller is the running child.
type Controller struct {
	*process.Process
	Metrics string // base URL
	Health  string // base URL
}

// StartController runs the shipped binary until it is ready. Extra flags win over the defaults.
func (p *Platform) StartController(ctx context.Context, extra ...string) (*Controller, error) {
	return p.launch(ctx, "/readyz", extra...)
}

// StartUnreadyController runs the shipped binary until it is alive, for tests of what keeps it from being ready.
func (p *Platform) StartUnreadyController(ctx context.Context, extra ...string) (*Controller, error) {
	return p.launch(ctx, "/healthz", extra...)
}

func (p *Platform) launch(ctx context.Context, until string, extra ...string) (*Controller, error) {
	p.mu.Lock()
	p.starts++
	name := fmt.Sprintf("etcd-controller-%d", p.starts)
	p.mu.Unlock()
	metrics, err := ports.Address()
	if err != nil {
		return nil, err
	}
	health, err := ports.Address()
	if err != nil {
		return nil, err
	}
	c := &Controller{Metrics: "http://" + metrics, Health: "http://" + health}
	args := append([]string{
		"--kubeconfig=" + p.kubeconfig, "--namespace=" + SystemNamespace, "--leader-elect=false",
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
		"--etcd-resolve=*=" + p.Front.Addr(), "--zap-devel=false",
		"--etcdutl-dir=" + p.Bin, "--scratch-dir=" + filepath.Join(p.Dir, "scratch"),
	}, extra...)
	c.Process, err = process.Start(ctx, process.Spec{
		Name: name, Path: p.Binary, Args: args, Dir: p.Dir, StartTimeout: 30 * time.Second,
		Ready: process.AnswersOK(http.DefaultClient, c.Health+until),
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// key names an object for error messages and look-ups.
func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func join(parts ...string) string { return strings.Join(parts, "/") }
