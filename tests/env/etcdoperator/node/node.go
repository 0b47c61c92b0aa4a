// Package node plays what stands below an operator on a real cluster: scheduler, kubelet, volume provisioner and Job controller, for the Pods of etcd members and of
// snapshot Jobs only. Containers are child processes or functions of this process, volumes are folders, the network is loopback.
package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/agent"
	"github.com/cozy-etcd/cozy-etcd/tests/env/front"
)

// Name is the node that Pods are bound to. No Node object exists.
const Name = "loopback"

// Options say where the node runs and how it behaves.
type Options struct {
	Config        *rest.Config
	Scheme        *runtime.Scheme
	Router        *front.Router
	Agent         agent.Agent
	Bin           string // folder with etcd-<version>
	Dir           string // volumes, Pod folders, logs
	ClusterDomain string
	// TrustAnyName switches the check of a caller's certificate against its reverse name off.
	TrustAnyName bool
	Timing       Timing
	Hooks        Hooks
	Log          logr.Logger
}

// Timing scales what takes seconds and minutes on a real node.
type Timing struct {
	ReadinessDelay time.Duration // from the start of etcd to the first probe
	ProbePeriod    time.Duration
	CrashBackOff   time.Duration // after the second crash; doubles with each further one
	CrashBackOffTo time.Duration // at most
	JobBackOff     time.Duration // before the first retry of a Job's Pod; doubles
	JobDeadline    time.Duration // overrides activeDeadlineSeconds where > 0
	JobTTL         time.Duration // overrides ttlSecondsAfterFinished where > 0
	Relist         time.Duration // until the node notices that a container has ended by itself
	StopGrace      time.Duration // a container that does not end on SIGTERM is killed
}

// Hooks let a test interfere. Each may be nil.
type Hooks struct {
	BlockClaim    func(namespace, claim string) bool          // the claim stays Pending
	HoldContainer func(namespace, pod, container string) bool // the container exits at once with code 1
	HoldReady     func(namespace, pod string) bool            // a healthy container is not yet seen ready
	Partition     func(from, to string) bool                  // peer connections between two Pods are refused
}

// Node runs the Pods.
type Node struct {
	opts    Options
	client  client.Client // uncached
	manager ctrl.Manager
	peers   *peerNetwork

	mu      sync.Mutex
	runners map[types.UID]*runner
	addrs   map[types.NamespacedName]addresses
	logs    map[types.NamespacedName]string

	cancel context.CancelFunc
	done   chan error
	wg     sync.WaitGroup
}

// Start runs the node until Stop.
func Start(o Options) (*Node, error) {
	if err := os.MkdirAll(filepath.Join(o.Dir, "volumes"), 0o700); err != nil {
		return nil, fmt.Errorf("node folder: %w", err)
	}
	direct, err := client.New(o.Config, client.Options{Scheme: o.Scheme})
	if err != nil {
		return nil, fmt.Errorf("client of the node: %w", err)
	}
	n := &Node{
		opts: o, client: direct,
		runners: map[types.UID]*runner{}, addrs: map[types.NamespacedName]addresses{}, logs: map[types.NamespacedName]string{},
		done: make(chan error, 1),
	}
	n.manager, err = ctrl.NewManager(o.Config, ctrl.Options{Scheme: o.Scheme, Logger: o.Log, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return nil, fmt.Errorf("manager of the node: %w", err)
	}
	for _, setup := range []func(ctrl.Manager) error{n.setupPods, n.setupClaims, n.setupServices, n.setupJobs} {
		if err := setup(n.manager); err != nil {
			return nil, fmt.Errorf("controllers of the node: %w", err)
		}
	}
	if n.peers, err = newPeerNetwork(n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.done <- n.manager.Start(ctx) }()
	if !n.manager.GetCache().WaitForCacheSync(ctx) {
		n.Stop()
		return nil, fmt.Errorf("node: its caches do not fill")
	}
	return n, nil
}

// Stop ends the controllers and every container. Objects stay as they are.
func (n *Node) Stop() {
	n.cancel()
	<-n.done
	n.mu.Lock()
	for _, r := range n.runners {
		r.abandon()
	}
	n.mu.Unlock()
	n.wg.Wait()
	n.peers.stop()
	n.releaseAll()
}

// Kill ends the process of a member's Pod as a crash would; the container is restarted in place.
func (n *Node) Kill(namespace, pod string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.runners {
		if r.key.Namespace == namespace && r.key.Name == pod && r.kill() {
			return nil
		}
	}
	return fmt.Errorf("kill %s/%s: no process runs for that Pod", namespace, pod)
}

// Log returns what a Pod's agent printed, as the API server's log endpoint would.
func (n *Node) Log(namespace, pod string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logs[types.NamespacedName{Namespace: namespace, Name: pod}]
}

func (n *Node) appendLog(key types.NamespacedName, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logs[key] += text
}
