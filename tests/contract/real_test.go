package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
)

// TestRealOperator runs the suite against the cluster of CONTRACT_KUBECONFIG, which must have the operator and reach the S3 server. It makes namespaces contract-… and
// deletes them. Further variables: CONTRACT_S3_INSIDE and CONTRACT_S3_OUTSIDE (endpoints as Pods and as this process see them), CONTRACT_S3_BUCKET,
// CONTRACT_S3_ACCESS_KEY, CONTRACT_S3_SECRET_KEY, and optionally CONTRACT_S3_REGION, CONTRACT_S3_DENYING, CONTRACT_CLUSTER_DOMAIN, CONTRACT_ETCD_VERSION,
// CONTRACT_OTHER_MINOR, CONTRACT_LATER_OPERATOR=true.
func TestRealOperator(t *testing.T) {
	kubeconfig := os.Getenv("CONTRACT_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("CONTRACT_KUBECONFIG names no cluster with a real operator; use make contract KUBECONFIG=…")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.NewScheme()})
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	check(t, &Target{
		Client: c, Dial: forwarder{config, clients, c}.dial, ClusterDomain: setting("CLUSTER_DOMAIN", "cluster.local"),
		Version: setting("ETCD_VERSION", "3.6.11"), OtherMinor: setting("OTHER_MINOR", ""), RestoresItsMinorOnly: setting("LATER_OPERATOR", "") != "true",
		Store: Store{
			Inside: required(t, "S3_INSIDE"), Outside: required(t, "S3_OUTSIDE"), Bucket: required(t, "S3_BUCKET"), Region: setting("S3_REGION", "us-east-1"),
			AccessKey: required(t, "S3_ACCESS_KEY"), SecretKey: required(t, "S3_SECRET_KEY"), Denying: setting("S3_DENYING", ""),
		},
		// Three members took 78 s on the machine of the recordings, a kubelet brings a changed Secret within 90 s, and five crashes take some minutes.
		Patience: 4 * time.Minute, Quiet: 20 * time.Second,
	})
}

func setting(name, fallback string) string {
	if v := os.Getenv("CONTRACT_" + name); v != "" {
		return v
	}
	return fallback
}

func required(t *testing.T, name string) string {
	t.Helper()
	v := setting(name, "")
	require.NotEmpty(t, v, "set CONTRACT_%s", name)
	return v
}

// forwarder reaches Pods through the API server.
type forwarder struct {
	config  *rest.Config
	clients kubernetes.Interface
	reader  client.Reader
}

func (f forwarder) dial(ctx context.Context, host string) (net.Conn, error) {
	pod, err := f.pod(ctx, strings.Split(host, "."))
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, err
	}
	url := f.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, up := make(chan struct{}), make(chan struct{})
	forward, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:2379"}, stop, up, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forward.ForwardPorts() }()
	select {
	case <-up:
	case err := <-ended:
		return nil, errors.Join(errors.New("the port-forward ended"), err)
	case <-ctx.Done():
		close(stop)
		return nil, ctx.Err()
	}
	ports, err := forward.GetPorts()
	if err != nil {
		close(stop)
		return nil, err
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		close(stop)
		return nil, err
	}
	return &forwarded{Conn: conn, stop: stop}, nil
}

// forwarded ends its port-forward with the connection.
type forwarded struct {
	net.Conn
	stop chan struct{}
}

func (f *forwarded) Close() error {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	return f.Conn.Close()
}

// pod finds the member of <member>.<service>.<namespace>.svc, or a ready Pod behind the Service of <service>.<namespace>.svc.
func (f forwarder) pod(ctx context.Context, labels []string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if len(labels) >= 4 && labels[3] == "svc" {
		return pod, f.reader.Get(ctx, client.ObjectKey{Namespace: labels[2], Name: labels[0]}, pod)
	}
	service := &corev1.Service{}
	if err := f.reader.Get(ctx, client.ObjectKey{Namespace: labels[1], Name: labels[0]}, service); err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := f.reader.List(ctx, pods, client.InNamespace(labels[1]), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.Conditions {
			// A snapshot's Pod carries the Service's labels too but is no server.
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods.Items[i].Spec.Containers[0].Name == "etcd" {
				return &pods.Items[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no ready Pod behind Service %s/%s", labels[1], labels[0])
}
