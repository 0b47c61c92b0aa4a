package etcdoperator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/grpclog"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/agent"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/node"
)

// Operator is the running double: an operator that may die and come back, and a node that lives on meanwhile.
type Operator struct {
	Faults Faults

	opts   Options
	scheme *runtime.Scheme
	client client.Client // uncached: the double reads what is
	node   *node.Node
	log    logr.Logger
	file   *os.File
	mode   atomic.Value // Mode

	stop   sync.Once
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan error
}

var quiet sync.Once

// Start runs node and operator until Stop.
func Start(ctx context.Context, o Options) (*Operator, error) {
	o = o.withDefaults()
	// Refused connections are daily bread here, and gRPC would print each.
	quiet.Do(func() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) })
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(o.Dir, "etcdoperator.log"))
	if err != nil {
		return nil, err
	}
	op := &Operator{opts: o, scheme: api.NewScheme(), log: zap.New(zap.WriteTo(file)), file: file}
	op.SetMode(o.Mode)
	if op.client, err = client.New(o.Config, client.Options{Scheme: op.scheme}); err != nil {
		return nil, fmt.Errorf("client of the operator double: %w", err)
	}
	play := agent.Agent{
		Dial: o.Router.DialContext, Bin: o.Bin, Etcdutl: op.etcdutl,
		TrustAnyName: o.Mutant == TLSNamesUnverified, CheckHash: o.Mutant == RestoreWithHashCheck,
	}
	op.node, err = node.Start(node.Options{
		Config: o.Config, Scheme: op.scheme, Router: o.Router, Agent: play, Bin: o.Bin, Dir: filepath.Join(o.Dir, "node"),
		ClusterDomain: o.ClusterDomain, TrustAnyName: o.Mutant == TLSNamesUnverified, Timing: o.Timing.Node, Hooks: op.hooks(), Log: op.log.WithName("node"),
	})
	if err != nil {
		return nil, err
	}
	if err := op.Recover(ctx); err != nil {
		op.node.Stop()
		return nil, err
	}
	return op, nil
}

// SetMode plays the roll-out of another generation of the operator: Pods that it makes and restores that begin from now on are of that one.
func (o *Operator) SetMode(m Mode) { o.mode.Store(m) }

func (o *Operator) generation() Mode { return o.mode.Load().(Mode) }

// etcdutl is the version in the operator's image, or empty.
func (o *Operator) etcdutl() string {
	if o.generation() == Later {
		return ""
	}
	return compiledEtcdutl
}

// hooks bring the faults that concern the node to it.
func (o *Operator) hooks() node.Hooks {
	return node.Hooks{
		HoldReady:  o.tooEarly,
		BlockClaim: func(ns, claim string) bool { f := o.Faults.now().BlockPVC; return f != nil && f(ns, claim) },
		Partition:  func(from, to string) bool { f := o.Faults.now().Partition; return f != nil && f(from, to) },
		HoldContainer: func(ns, pod, container string) bool {
			plan := o.Faults.now()
			if plan.HoldContainer != nil && plan.HoldContainer(ns, pod, container) {
				return true
			}
			if plan.FailSeed == nil || container != etcdContainer {
				return false
			}
			member := &etcdv1alpha2.EtcdMember{}
			err := o.client.Get(context.Background(), client.ObjectKey{Namespace: ns, Name: pod}, member)
			return err == nil && member.Spec.Bootstrap && plan.FailSeed(ns, member.Spec.ClusterName)
		},
	}
}

// Recover starts the operator part, at first and after Crash. It knows nothing but what the objects say.
func (o *Operator) Recover(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancel != nil {
		return errors.New("the operator double runs already")
	}
	m, err := ctrl.NewManager(o.opts.Config, ctrl.Options{Scheme: o.scheme, Logger: o.log, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("manager of the operator double: %w", err)
	}
	if err := o.setup(m); err != nil {
		return fmt.Errorf("controllers of the operator double: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel, o.done = cancel, make(chan error, 1)
	go func() { o.done <- m.Start(run) }()
	if !m.GetCache().WaitForCacheSync(run) {
		return errors.New("the operator double's caches do not fill: are its CRDs installed?")
	}
	return nil
}

// Crash ends the operator part at once. Members and Jobs run on, as they would.
func (o *Operator) Crash() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancel == nil {
		return
	}
	o.cancel()
	<-o.done
	o.cancel = nil
}

// Stop ends the operator, the node and every child process. It may be called more than once.
func (o *Operator) Stop() {
	o.stop.Do(func() {
		o.Crash()
		o.node.Stop()
		_ = o.file.Close()
	})
}

// KillMember ends the process of a member as a crash would.
func (o *Operator) KillMember(namespace, member string) error { return o.node.Kill(namespace, member) }

// MemberAddress is the loopback address of a member's client port.
func (o *Operator) MemberAddress(namespace, member string) (string, bool) {
	return o.node.ClientAddress(namespace, member)
}

// PodLog is what a snapshot or restore Pod printed.
func (o *Operator) PodLog(namespace, pod string) string { return o.node.Log(namespace, pod) }

func (o *Operator) setup(m ctrl.Manager) error {
	options := controller.Options{
		SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 4,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Second),
	}
	err := ctrl.NewControllerManagedBy(m).Named("double-clusters").WithOptions(options).For(&etcdv1alpha2.EtcdCluster{}).
		Owns(&etcdv1alpha2.EtcdMember{}).Owns(&corev1.Service{}).Owns(&policyv1.PodDisruptionBudget{}).Complete(clusters{o})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(m).Named("double-members").WithOptions(options).For(&etcdv1alpha2.EtcdMember{}).
		Owns(&corev1.Pod{}).Owns(&corev1.PersistentVolumeClaim{}).Complete(members{o})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("double-snapshots").WithOptions(options).For(&etcdv1alpha2.EtcdSnapshot{}).
		Owns(&batchv1.Job{}).Complete(snapshots{o})
}

func (o *Operator) soon() ctrl.Result { return ctrl.Result{RequeueAfter: o.opts.Timing.Poll} }
