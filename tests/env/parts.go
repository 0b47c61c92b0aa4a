package env

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/tests/env/certmanager"
	"github.com/cozy-etcd/cozy-etcd/tests/env/front"
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
	e.Client, err = client.NewWithWatch(e.Config, client.Options{Scheme: Scheme()})
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

// startDoubles runs what plays the platform around us.
func (e *Env) startDoubles(context.Context) error { return nil }
