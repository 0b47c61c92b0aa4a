// Package env brings up a whole platform on loopback for tests, the demo and benchmarks: a real Kubernetes API with its garbage collector, cert-manager's
// own controllers and a real S3 server. What stands in for the rest of a platform is a double and called so in its package.
package env

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/env/front"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helm"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
	"github.com/cozy-etcd/cozy-etcd/tests/env/s3"
)

// Options shape an environment; the zero value starts everything.
type Options struct {
	Name     string            // appears in error messages; default "env"
	Dir      string            // scratch folder, kept at Stop; default is a temporary one, removed at Stop
	Bin      string            // folder of the binaries; default $COZY_ETCD_BIN, else bin in the repository
	Audit    bool              // the API server writes an audit log at metadata level
	CRDDirs  []string          // default: CRDDirs of the repository
	Progress func(part string) // told when a part is up; may be called from several goroutines, one at a time

	// FluxMode is the generation of Flux to play; Charts maps chart names of HelmReleases to folders and has "etcd", the tenant chart, by default.
	FluxMode helmcontroller.Mode
	Charts   map[string]string

	KamajiMode kamaji.Mode // the generation of Kamaji to play

	// Operator chooses which etcd-operator is played; its Config, Router, Bin and Dir are filled in.
	Operator etcdoperator.Options

	NoOperator, NoFlux, NoKamaji, NoCertManager, NoS3 bool
}

// Env is a running environment.
type Env struct {
	Name       string
	Dir        string
	Bin        string
	Config     *rest.Config // an administrator without client-side throttling
	Kubeconfig string       // path
	AuditLog   string       // path, empty without Options.Audit
	Client     client.WithWatch

	Kube     *kube.Cluster
	S3       *s3.Server // nil with NoS3
	Front    *front.Router
	Helm     *helm.Client               // what a person does with the helm command
	Operator *etcdoperator.Operator     // nil with NoOperator
	Flux     *helmcontroller.Controller // nil with NoFlux
	Kamaji   *kamaji.Controller         // nil with NoKamaji

	opts     Options
	progress sync.Mutex
	stops    stack
	stopOnce sync.Once
	detach   func() bool
}

// Start brings an environment up. It ends when ctx does, or at Stop. A failed start names the part and the end of its log and leaves nothing running.
// Whoever wants controller-runtime's log sets a logger before.
func Start(ctx context.Context, o Options) (*Env, error) {
	// Without any logger controller-runtime prints a warning with a stack; a logger that was set earlier stays.
	ctrllog.SetLogger(logr.Discard())
	e, err := prepare(o)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	if err := e.start(ctx); err != nil {
		e.Stop()
		return nil, fmt.Errorf("environment %s: %w", e.Name, err)
	}
	e.detach = context.AfterFunc(ctx, e.shutdown)
	return e, nil
}

// Stop ends everything that Start began and removes the scratch folder unless the caller named it. It may be called more than once.
func (e *Env) Stop() {
	if e.detach != nil {
		e.detach()
	}
	e.shutdown()
}

func (e *Env) shutdown() {
	e.stopOnce.Do(e.stops.run)
}

func prepare(o Options) (*Env, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	e := &Env{Name: o.Name, Dir: o.Dir, Bin: o.Bin, opts: o}
	if e.Name == "" {
		e.Name = "env"
	}
	if e.Bin == "" {
		e.Bin = defaultBin(root)
	}
	if o.CRDDirs == nil {
		e.opts.CRDDirs = CRDDirs(root)
	}
	if e.Dir == "" {
		if e.Dir, err = os.MkdirTemp("", "cozy-etcd-"); err != nil {
			return nil, err
		}
		e.stops.push(func() { _ = os.RemoveAll(e.Dir) })
	}
	return e, os.MkdirAll(e.Dir, 0o700)
}

// start runs what does not need each other side by side: two cores are busy for the whole start, and it is the API server that takes long.
func (e *Env) start(ctx context.Context) error {
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.startControlPlane(gctx, ctx) })
	group.Go(func() error { return e.part("s3", !e.opts.NoS3, func() error { return e.startS3(gctx) }) })
	group.Go(func() error { return e.part("front", true, e.startFront) })
	if err := group.Wait(); err != nil {
		return err
	}
	return e.startDoubles(ctx)
}

// startControlPlane takes two contexts: one ends with the start, the other with the environment.
func (e *Env) startControlPlane(starting, running context.Context) error {
	if err := e.part("kubernetes", true, func() error { return e.startKube(starting) }); err != nil {
		return err
	}
	if err := e.part("crds", true, func() error { return e.installCRDs(starting) }); err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(starting)
	group.Go(func() error {
		return e.part("kube-controller-manager", true, func() error { return e.Kube.StartControllers(gctx) })
	})
	group.Go(func() error {
		return e.part("cert-manager", !e.opts.NoCertManager, func() error { return e.startCertManager(running) })
	})
	return group.Wait()
}

// part runs one step of the start, names it in its error and reports it when it is done.
func (e *Env) part(name string, wanted bool, start func() error) error {
	if !wanted {
		return nil
	}
	if err := start(); err != nil {
		return fmt.Errorf("part %q did not start: %w", name, err)
	}
	if e.opts.Progress != nil {
		e.progress.Lock()
		defer e.progress.Unlock()
		e.opts.Progress(name)
	}
	return nil
}

// stack runs functions in reverse order of their arrival.
type stack struct {
	mu  sync.Mutex
	all []func()
}

func (s *stack) push(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, f)
}

func (s *stack) run() {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for i := len(all) - 1; i >= 0; i-- {
		all[i]()
	}
}
