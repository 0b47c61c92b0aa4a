package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/backupjob"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/operator"
)

// options are the command line. Every flag has a default that works in the Deployment of charts/etcd-controller.
type options struct {
	namespace      string
	metricsAddress string
	healthAddress  string
	leaderElect    bool
	plans          bool
	backupDeadline time.Duration
	queueLimit     time.Duration
	missingFence   bool
	restoreMinors  string
	operator       types.NamespacedName
	resolve        etcd.Resolver
	concurrency    int
	maxSnapshots   int
	scratchDir     string
	scratchLimit   byteSize
	etcdutlDir     string
}

func (o *options) register(fs *flag.FlagSet) {
	fs.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the controller's own namespace: its Lease and the records of restores live there (default: $POD_NAMESPACE)")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "where Prometheus metrics are served; 0 switches them off")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served")
	fs.BoolVar(&o.leaderElect, "leader-elect", true, "run the controllers only while holding the Lease; needed as soon as there is a second replica")
	fs.BoolVar(&o.plans, "plans", true, "create BackupJobs for Plans; false leaves Plans to Cozystack's backup-controller")
	fs.DurationVar(&o.backupDeadline, "backup-deadline", backupjob.DefaultDeadline, "a BackupJob fails this long after its start, whatever it waits for")
	fs.StringVar(&o.restoreMinors, "operator-restore-minors", "3.6", "comma-separated etcd minors that the running etcd-operator can restore, where --operator-deployment does not tell; others are refused before anything is touched")
	fs.Func("operator-deployment", "NAMESPACE/NAME of the etcd-operator's Deployment: its image's tag tells which etcd minors it can restore (default: nobody looks)", func(text string) (err error) {
		o.operator, err = operator.ParseDeployment(text)
		return err
	})
	fs.DurationVar(&o.queueLimit, "queue-limit", lock.DefaultQueueLimit, "a BackupJob or RestoreJob fails this long after its creation if it has not got the lock of its application")
	fs.BoolVar(&o.missingFence, "allow-missing-fence", false, "restore even where the admission policy of charts/etcd-controller does not work: an edit of the application may then bring up an empty cluster")
	fs.Var(&o.resolve, "etcd-resolve", "PATTERN=HOST:PORT, repeatable: connect there for etcd hosts that match, and still verify the certificate against the host name; for port-forwards and tests")
	fs.IntVar(&o.maxSnapshots, "max-running-snapshots", backupjob.DefaultMaxRunning, "snapshots under way at once, over all namespaces")
	fs.StringVar(&o.scratchDir, "scratch-dir", filepath.Join(os.TempDir(), "etcd-controller"), "where restores unpack snapshots, one at a time; about twice a snapshot's size and 160Mi are needed")
	fs.Var(&o.scratchLimit, "scratch-limit", "the most bytes that one snapshot and all that is made of it may take together in --scratch-dir, such as 8Gi; 0 means what the volume has")
	fs.StringVar(&o.etcdutlDir, "etcdutl-dir", "", "folder with etcdutl-X.Y.Z, one or more for each etcd minor that is restored (default: the folder of this program, else bin below it or the working directory)")
	fs.IntVar(&o.concurrency, "concurrency", 4, "reconciles of one kind that run at once")
}

func (o *options) validate() error {
	var errs []error
	if o.namespace == "" {
		errs = append(errs, errors.New("--namespace is empty and POD_NAMESPACE is not set: say which namespace the controller runs in"))
	}
	if o.backupDeadline < time.Minute {
		errs = append(errs, fmt.Errorf("--backup-deadline %s: at least 1m", o.backupDeadline))
	}
	if o.queueLimit < time.Minute {
		errs = append(errs, fmt.Errorf("--queue-limit %s: at least 1m", o.queueLimit))
	}
	if o.concurrency < 1 {
		errs = append(errs, fmt.Errorf("--concurrency %d: at least 1", o.concurrency))
	}
	if o.maxSnapshots < 1 {
		errs = append(errs, fmt.Errorf("--max-running-snapshots %d: at least 1", o.maxSnapshots))
	}
	return errors.Join(errs...)
}

func (o *options) minors() []string {
	var minors []string
	for m := range strings.SplitSeq(o.restoreMinors, ",") {
		if m = strings.TrimSpace(m); m != "" {
			minors = append(minors, m)
		}
	}
	return minors
}
