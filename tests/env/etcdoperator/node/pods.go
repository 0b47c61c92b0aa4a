package node

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// pods starts a runner for each Pod of a member or of a snapshot Job, and ends it with the Pod.
type pods struct{ *Node }

func (n *Node) setupPods(m ctrl.Manager) error {
	mounting := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, secret client.Object) []reconcile.Request {
		return n.podsThatMount(secret.GetNamespace(), secret.GetName())
	})
	return ctrl.NewControllerManagedBy(m).Named("loopback-pods-"+filepath.Base(n.opts.Dir)).WithOptions(controllerOptions()).
		For(&corev1.Pod{}).Watches(&corev1.Secret{}, mounting).Complete(pods{n})
}

func (n *Node) podsThatMount(namespace, secret string) []reconcile.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []reconcile.Request
	for _, r := range n.runners {
		if r.key.Namespace == namespace && r.mountsSecret(secret) {
			out = append(out, reconcile.Request{NamespacedName: r.key})
		}
	}
	return out
}

func (p pods) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := p.client.Get(ctx, req.NamespacedName, pod)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return ctrl.Result{}, err
	}
	p.abandonOthers(req.NamespacedName, pod.UID)
	if gone || !ours(pod) {
		return ctrl.Result{}, nil
	}
	r := p.runner(pod.UID)
	switch {
	case !pod.DeletionTimestamp.IsZero() && r != nil:
		r.terminate()
	case !pod.DeletionTimestamp.IsZero():
		return ctrl.Result{}, client.IgnoreNotFound(p.deleteNow(ctx, pod.ObjectMeta))
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
	case r != nil:
		return ctrl.Result{}, r.refreshSecrets(ctx)
	default:
		p.begin(pod)
	}
	return ctrl.Result{}, nil
}

// ours says whether this node runs the Pod: those of members and of snapshot Jobs, nothing else.
func ours(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return false
	}
	return owner.Kind == "EtcdMember" || owner.Kind == "Job" && pod.Labels[ClusterLabel] != ""
}

func (n *Node) runner(uid types.UID) *runner {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runners[uid]
}

func (n *Node) begin(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := newRunner(n, pod)
	n.runners[pod.UID] = r
	n.wg.Go(func() {
		r.run()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.runners, pod.UID)
	})
}

// abandonOthers kills what still runs under the name of a Pod that no longer exists, as a kubelet does after a forced deletion.
func (n *Node) abandonOthers(key types.NamespacedName, living types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, r := range n.runners {
		if r.key == key && uid != living {
			r.abandon()
		}
	}
}

// deleteNow removes the object of a Pod whose containers have ended.
func (n *Node) deleteNow(ctx context.Context, pod metav1.ObjectMeta) error {
	return n.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}},
		client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
}
