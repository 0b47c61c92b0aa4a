// Command env keeps a local environment up until it is interrupted.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
)

func main() {
	var o env.Options
	flag.StringVar(&o.Dir, "dir", "", "scratch folder, kept afterwards (default: a temporary one, removed)")
	flag.StringVar(&o.Bin, "bin", "", "folder of the binaries (default: $COZY_ETCD_BIN, else bin of the repository)")
	flag.BoolVar(&o.Audit, "audit", false, "write the API server's audit log")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o env.Options) error {
	// The libraries inside log to their own files or not at all: this terminal is for the reader.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	began := time.Now()
	o.Progress = func(part string) { fmt.Printf("%6.1fs  %s is up\n", time.Since(began).Seconds(), part) }
	e, err := env.Start(ctx, o)
	if err != nil {
		return err
	}
	defer e.Stop()
	show(e)
	<-ctx.Done()
	fmt.Println("\nstopping")
	return nil
}

func show(e *env.Env) {
	fmt.Printf("\nexport KUBECONFIG=%s\n\n", e.Kubeconfig)
	fmt.Printf("S3      %s  bucket %s  access key %s  secret key %s  region %s (path style)\n", e.S3.Endpoint, e.S3.Bucket, e.S3.AccessKey, e.S3.SecretKey, e.S3.Region)
	fmt.Printf("etcd    %s answers for every Service name by SNI: --etcd-resolve '*=%s'\n", e.Front.Addr(), e.Front.Addr())
	fmt.Printf("logs    %s\n", e.Dir)
	if e.AuditLog != "" {
		fmt.Printf("audit   %s\n", e.AuditLog)
	}
	showGuide(os.Stdout, e)
	fmt.Println("\nCtrl-C stops everything.")
}
