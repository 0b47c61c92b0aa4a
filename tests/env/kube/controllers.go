package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// controllers are those that make objects live and die as on a cluster. None that would need nodes or that acts on workloads is among them.
var controllers = []string{
	"garbage-collector-controller", "namespace-controller",
	"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller",
	"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
}

// StartControllers runs kube-controller-manager and returns when its garbage collector has been seen to work. Call it after the CRDs are established:
// the collector learns kinds at its start and then looks for new ones only every 30 s. Calling it again replaces the running one.
func (c *Cluster) StartControllers(ctx context.Context) error {
	path, err := Binary(c.opts.Bin, "kube-controller-manager")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	if c.manager != nil {
		c.manager.Kill()
	}
	probe := &collectorProbe{client: client}
	c.manager, err = process.Start(ctx, process.Spec{
		Name: "kube-controller-manager", Path: path, Dir: c.opts.Dir,
		Args: []string{
			"--kubeconfig=" + c.kubeconfig("controllers"), "--controllers=" + strings.Join(controllers, ","),
			"--service-account-private-key-file=" + filepath.Join(c.pki, "sa.key"), "--root-ca-file=" + filepath.Join(c.pki, "ca.crt"),
			"--leader-elect=false", "--secure-port=0", "--profiling=false", "--kube-api-qps=500", "--kube-api-burst=1000",
		},
		Ready: probe.ready,
	})
	return err
}

// collectorProbe plants a ConfigMap whose owner does not exist: it is gone once the collector knows every kind and its workers run.
type collectorProbe struct {
	client  kubernetes.Interface
	planted bool
}

const probeName = "garbage-collector-probe"

func (p *collectorProbe) ready(ctx context.Context) error {
	maps := p.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if !p.planted {
		orphan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: probeName, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "00000000-0000-0000-0000-000000000000"},
		}}}
		if _, err := maps.Create(ctx, orphan, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		p.planted = true
	}
	switch _, err := maps.Get(ctx, probeName, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	default:
		return fmt.Errorf("the garbage collector has not removed ConfigMap default/%s, whose owner does not exist", probeName)
	}
	_, err := p.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}
