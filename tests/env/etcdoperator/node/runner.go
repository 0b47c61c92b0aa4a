package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

var (
	errTerminate = errors.New("the Pod is being deleted")
	errAbandon   = errors.New("the Pod is gone or the node stops")
)

const recheck = 50 * time.Millisecond

// runner plays one Pod from binding to its end.
type runner struct {
	*Node
	key  types.NamespacedName
	pod  *corev1.Pod
	stop context.CancelCauseFunc
	ctx  context.Context

	writing  sync.Mutex // one status write at a time, so that an older one never comes last
	mu       sync.Mutex
	secrets  map[string]string // volume name → folder, once mounted
	process  *process.Process
	inits    []corev1.ContainerStatus
	mains    []corev1.ContainerStatus
	mounted  bool
	finished bool
	since    map[string]condition
}

func newRunner(n *Node, pod *corev1.Pod) *runner {
	ctx, stop := context.WithCancelCause(context.Background())
	r := &runner{
		Node: n, pod: pod, ctx: ctx, stop: stop,
		key:     types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		secrets: map[string]string{}, since: map[string]condition{},
	}
	first := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		first = "PodInitializing"
	}
	for _, c := range pod.Spec.InitContainers {
		r.inits = append(r.inits, waitingStatus(c, first))
	}
	for _, c := range pod.Spec.Containers {
		r.mains = append(r.mains, waitingStatus(c, first))
	}
	return r
}

func (r *runner) terminate() { r.stop(errTerminate) }
func (r *runner) abandon()   { r.stop(errAbandon) }

func (r *runner) kill() bool {
	r.mu.Lock()
	p := r.process
	r.mu.Unlock()
	if p == nil {
		return false
	}
	p.Kill()
	return true
}

func (r *runner) run() {
	r.play()
	r.peers.leave(r.pod.UID)
	r.opts.Router.RemoveMember(r.key.Namespace, r.pod.Labels[ClusterLabel], r.key.Name)
	if errors.Is(context.Cause(r.ctx), errTerminate) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r.endStates()
		_ = r.publish(ctx) // the object may be gone already
		_ = r.deleteNow(ctx, r.pod.ObjectMeta)
	}
	_ = os.RemoveAll(filepath.Join(r.folder(), "volumes"))
}

// play returns when the Pod has ended by itself or its end has been asked for.
func (r *runner) play() {
	if !r.retry(r.bindToNode) || !r.retry(r.publish) || !r.retry(r.mount) {
		return
	}
	r.change(func() { r.mounted = true })
	for i := range r.pod.Spec.InitContainers {
		if !r.keepRunning(r.pod.Spec.InitContainers[i], &r.inits[i], true) {
			return
		}
	}
	if len(r.pod.Spec.Containers) > 0 {
		r.keepRunning(r.pod.Spec.Containers[0], &r.mains[0], false)
	}
}

// retry calls f until it succeeds; false means that the Pod is to end.
func (r *runner) retry(f func(context.Context) error) bool {
	for r.ctx.Err() == nil {
		if f(r.ctx) == nil {
			return true
		}
		r.sleep(recheck)
	}
	return false
}

func (r *runner) sleep(d time.Duration) {
	select {
	case <-r.ctx.Done():
	case <-time.After(d):
	}
}

func (r *runner) bindToNode(ctx context.Context) error {
	if r.pod.Spec.NodeName != "" {
		return nil
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: Name}}
	return r.client.SubResource("binding").Create(ctx, r.pod.DeepCopy(), binding)
}

// keepRunning runs a container and restarts it as the Pod's policy wants. It returns true when an init container has succeeded.
func (r *runner) keepRunning(c corev1.Container, status *corev1.ContainerStatus, init bool) bool {
	never := r.pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	for crashes := 0; r.ctx.Err() == nil; crashes++ {
		if crashes > 0 {
			r.backOff(c, status, crashes)
		}
		started, code := r.attempt(c, status)
		if r.ctx.Err() != nil {
			return false
		}
		r.ended(status, started, code, never)
		r.retry(r.publish)
		if code == 0 && init || never {
			return code == 0
		}
	}
	return false
}

// backOff waits as a kubelet does: the first restart comes at once, the next ones later and later.
func (r *runner) backOff(c corev1.Container, status *corev1.ContainerStatus, crashes int) {
	if crashes > 1 {
		wait := min(r.opts.Timing.CrashBackOff<<(crashes-2), r.opts.Timing.CrashBackOffTo)
		r.change(func() {
			status.LastTerminationState = status.State
			status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CrashLoopBackOff", Message: "back-off " + wait.String() + " restarting failed container=" + c.Name + " pod=" + r.key.Name,
			}}
		})
		r.retry(r.publish)
		r.sleep(wait)
	}
	r.change(func() { status.RestartCount++ })
}

func (r *runner) folder() string { return filepath.Join(r.opts.Dir, "pods", string(r.pod.UID)) }

func (r *runner) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}
