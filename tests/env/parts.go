package env

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/tests/env/certmanager"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/env/front"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helm"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
	"github.com/cozy-etcd/cozy-etcd/tests/env/s3"
)

func (e *Env) startKube(ctx context.Context) error {
	c, err := kube.Start(ctx, kube.Options{Dir: e.Dir, Bin: e.Bin, Audit: e.opts.Audit})
	if err != nil {
		return err
	}
	e.stops.push(c.Stop)
	e.Kube, e.Config, e.Kubeconfig, e.AuditLog = c, c.Config, c.Kubeconfig, c.AuditLog
	return nil
}

func (e *Env) installCRDs(ctx context.Context) error {
	dirs := e.opts.CRDDirs
	if !e.opts.NoCertManager {
		root, err := Root()
		if err != nil {
			return err
		}
		dir, err := certmanager.CRDs(ctx, root)
		if err != nil {
			return err
		}
		dirs = append([]string{dir}, dirs...)
	}
	if err := e.Kube.InstallCRDs(ctx, dirs...); err != nil {
		return err
	}
	var err error
	if e.Client, err = client.NewWithWatch(e.Config, client.Options{Scheme: Scheme()}); err != nil {
		return err
	}
	e.Helm, err = helm.New(e.Config)
	return err
}

func (e *Env) startS3(ctx context.Context) error {
	path, err := kube.Binary(e.Bin, "versitygw")
	if err != nil {
		return err
	}
	e.S3, err = s3.Start(ctx, s3.Options{Dir: e.Dir, Binary: path})
	if err != nil {
		return err
	}
	e.stops.push(e.S3.Stop)
	return nil
}

func (e *Env) startFront() error {
	router, err := front.Start()
	if err != nil {
		return err
	}
	e.Front = router
	e.stops.push(router.Stop)
	return nil
}

// logFile opens a log in the scratch folder for a part that runs inside this process.
func (e *Env) logFile(name string) (io.Writer, error) {
	log, err := os.Create(filepath.Join(e.Dir, name+".log"))
	if err == nil {
		e.stops.push(func() { _ = log.Close() })
	}
	return log, err
}

func (e *Env) startCertManager(ctx context.Context) error {
	log, err := e.logFile("cert-manager")
	if err != nil {
		return err
	}
	m, err := certmanager.Start(ctx, certmanager.Options{Kubeconfig: e.Kubeconfig, Log: log})
	if err != nil {
		return fmt.Errorf("%w; its log is %s", err, filepath.Join(e.Dir, "cert-manager.log"))
	}
	e.stops.push(m.Stop)
	return nil
}

// startDoubles runs what plays the platform around us.
func (e *Env) startDoubles(ctx context.Context) error {
	if err := e.part("operator", !e.opts.NoOperator, func() error { return e.startOperator(ctx) }); err != nil {
		return err
	}
	if err := e.part("flux", !e.opts.NoFlux, func() error { return e.startFlux(ctx) }); err != nil {
		return err
	}
	return e.part("kamaji", !e.opts.NoKamaji, func() error { return e.startKamaji(ctx) })
}

func (e *Env) startKamaji(ctx context.Context) error {
	log, err := e.logFile("kamaji")
	if err != nil {
		return err
	}
	e.Kamaji, err = kamaji.New(kamaji.Options{
		Config: e.Config, Mode: e.opts.KamajiMode, Resolve: func(string) string { return e.Front.Addr() },
		Log: func(format string, args ...any) { _, _ = fmt.Fprintf(log, format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	e.stops.push(e.Kamaji.Stop)
	return e.Kamaji.Start(ctx)
}

func (e *Env) startOperator(ctx context.Context) error {
	o := e.opts.Operator
	o.Config, o.Router, o.Bin, o.Dir = e.Config, e.Front, e.Bin, filepath.Join(e.Dir, "operator")
	op, err := etcdoperator.Start(ctx, o)
	if err != nil {
		return err
	}
	e.Operator = op
	e.stops.push(op.Stop)
	return nil
}

func (e *Env) startFlux(ctx context.Context) error {
	root, err := Root()
	if err != nil {
		return err
	}
	charts := map[string]string{"etcd": filepath.Join(root, "charts", "etcd"), "charts/etcd": filepath.Join(root, "charts", "etcd")}
	for name, path := range e.opts.Charts {
		charts[name] = path
	}
	log, err := e.logFile("helm-controller")
	if err != nil {
		return err
	}
	e.Flux, err = helmcontroller.New(helmcontroller.Options{
		Config: e.Config, Mode: e.opts.FluxMode, Charts: charts,
		Log: func(format string, args ...any) {
			_, _ = fmt.Fprintf(log, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
		},
	})
	if err != nil {
		return err
	}
	e.stops.push(e.Flux.Stop)
	return e.Flux.Start(ctx)
}
