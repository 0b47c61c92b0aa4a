// Command etcd-controller runs the backups and restores of tenants' etcd clusters.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "etcd-controller:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	o.register(flag.CommandLine)
	logOptions := zap.Options{}
	logOptions.BindFlags(flag.CommandLine)
	flag.Parse()
	if err := o.validate(); err != nil {
		return err
	}
	logger := zap.New(zap.UseFlagOptions(&logOptions))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no API server: %w (give --kubeconfig or run in a cluster)", err)
	}
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
