// Command demo shows the main job on the local environment: a tenant's etcd is installed, filled, backed up to S3, damaged and restored in place. It exits
// with 0 only if every proof held.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The libraries of the environment log to nowhere: the terminal belongs to the demo, and each part has a log file.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	err := run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	d := &demo{report: report{out: out, began: time.Now()}}
	defer d.stop()
	for _, s := range d.stages() {
		if err := d.report.stage(s.title, func() error { return s.do(ctx) }); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted; everything that was started is stopped")
			}
			return err
		}
	}
	d.report.summary()
	return nil
}
