package node

import (
	"context"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ClusterLabel is on every object of an EtcdCluster and selects its Pods.
const ClusterLabel = "etcd-operator.cozystack.io/cluster"

// services tells the router which Service names exist: those that select the Pods of a cluster, whoever made them.
type services struct {
	*Node
	mu    *sync.Mutex
	known map[types.NamespacedName]string
}

func (n *Node) setupServices(m ctrl.Manager) error {
	s := services{Node: n, mu: &sync.Mutex{}, known: map[types.NamespacedName]string{}}
	return ctrl.NewControllerManagedBy(m).Named("loopback-services-" + filepath.Base(n.opts.Dir)).WithOptions(controllerOptions()).
		For(&corev1.Service{}).Complete(s)
}

func (s services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	service := &corev1.Service{}
	err := s.client.Get(ctx, req.NamespacedName, service)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	cluster := service.Spec.Selector[ClusterLabel]
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.known[req.NamespacedName]; old != "" && old != cluster {
		s.opts.Router.SetService(req.Namespace, old, req.Name, false)
		delete(s.known, req.NamespacedName)
	}
	if cluster != "" {
		s.known[req.NamespacedName] = cluster
		s.opts.Router.SetService(req.Namespace, cluster, req.Name, true)
	}
	return ctrl.Result{}, nil
}
