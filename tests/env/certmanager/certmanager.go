// Package certmanager runs cert-manager's own controllers inside this process: Certificates, CertificateRequests and the issuers ca and selfsigned.
// There is no ACME and no webhook: requests are approved by cert-manager's own approver, and only the CRD schemas validate.
package certmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	requestsca "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	requestsselfsigned "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"         // registers the issuer
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // registers the issuer
	"github.com/go-logr/logr"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2/textlogger"
)

// A package of the API server, which cert-manager imports, turns gRPC's log on for the whole process: every connection to an etcd member that is not up yet would be
// a line on the terminal of whoever runs a test.
func init() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr))
}

const module = "github.com/cert-manager/cert-manager"

// names of the controllers as cert-manager registers them.
var names = []string{
	issuers.ControllerName, clusterissuers.ControllerName,
	trigger.ControllerName, keymanager.ControllerName, requestmanager.ControllerName, issuing.ControllerName, readiness.ControllerName,
	revisionmanager.ControllerName,
	approver.ControllerName, requestsca.CRControllerName, requestsselfsigned.CRControllerName,
}

// Options say which API server to serve and where to log.
type Options struct {
	Kubeconfig string
	Log        io.Writer
}

// Manager is a running set of controllers.
type Manager struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// CRDs is the folder of the CRDs in cert-manager's module, at the version that go.mod names.
func CRDs(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("find the module %s: %w: %s", module, err, exit.Stderr)
		}
		return "", fmt.Errorf("find the module %s: %w", module, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("the module %s is not in the module cache: run go mod download %s", module, module)
	}
	return filepath.Join(dir, "deploy", "crds"), nil
}

// Start runs the controllers until ctx ends or Stop. The CRDs must be established.
func Start(ctx context.Context, o Options) (*Manager, error) {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(o.Log)))
	ctx, cancel := context.WithCancel(ctx)
	m := &Manager{cancel: cancel}
	if err := m.run(logr.NewContext(ctx, logger), o); err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}

func (m *Manager) run(ctx context.Context, o Options) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    o.Kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			// The defaults of cert-manager's own command.
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	base, err := factory.Build()
	if err != nil {
		return err
	}
	var all []controller.Interface
	for _, name := range names {
		c, err := controller.Known()[name](factory)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		all = append(all, c)
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	for _, c := range all {
		m.done.Go(func() { _ = c.Run(workers, ctx) })
	}
	return awaitSync(ctx, base)
}

const workers = 5

// awaitSync returns when every cache is filled, so that a start against an unfit API server fails here and not in a silent worker.
func awaitSync(ctx context.Context, base *controller.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for kind, ok := range base.SharedInformerFactory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("the cache of %s was not filled", kind)
		}
	}
	for kind, ok := range base.KubeSharedInformerFactory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("the cache of %s was not filled", kind)
		}
	}
	return nil
}

// Stop ends the controllers and waits for them.
func (m *Manager) Stop() {
	m.cancel()
	m.done.Wait()
}
