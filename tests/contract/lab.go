package contract

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

const (
	clusterName  = "etcd"
	serverSecret = "etcd-server-tls"
	clientSecret = "etcd-client-tls"
	peerSecret   = "etcd-peer-tls"
	credsSecret  = "backup-creds"
)

// lab is a namespace of its own with certificates and S3 credentials.
type lab struct {
	*Target
	ns           string
	clients      *authority // of the client plane
	peers        *authority
	serverNames  []string
	peerNames    []string
	clientConfig map[string][]byte
}

// withLab makes a namespace for one fact and deletes it afterwards.
func withLab(ctx context.Context, t *Target, f func(ctx context.Context, l *lab) error) error {
	l := &lab{Target: t}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "contract-"}}
	if err := t.Client.Create(ctx, ns); err != nil {
		return err
	}
	l.ns = ns.Name
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*t.Patience)
		defer cancel()
		_ = t.Client.DeleteAllOf(end, &etcdv1alpha2.EtcdCluster{}, client.InNamespace(l.ns))
		for _, list := range []client.ObjectList{&etcdv1alpha2.EtcdMemberList{}, &corev1.PersistentVolumeClaimList{}} {
			_ = l.until(end, "the end of all members", func() error { return l.none(end, list) })
		}
		_ = t.Client.Delete(end, ns)
	}()
	if err := l.furnish(ctx); err != nil {
		return err
	}
	return f(ctx, l)
}

func (l *lab) furnish(ctx context.Context) (err error) {
	if l.clients, err = newAuthority("clients"); err != nil {
		return err
	}
	if l.peers, err = newAuthority("peers"); err != nil {
		return err
	}
	l.serverNames, l.peerNames = serverNames(l.ns, l.ClusterDomain), peerNames(l.ns, l.ClusterDomain)
	return l.secret(ctx, credsSecret, map[string][]byte{
		etcdv1alpha2.AccessKeyIDKey: []byte(l.Store.AccessKey), etcdv1alpha2.SecretAccessKeyKey: []byte(l.Store.SecretKey),
	})
}

// certificates writes the three TLS Secrets.
func (l *lab) certificates(ctx context.Context) error {
	server, err := l.clients.issue("etcd-server", bothUsages, l.serverNames...)
	if err != nil {
		return err
	}
	peer, err := l.peers.issue("etcd-peer", bothUsages, l.peerNames...)
	if err != nil {
		return err
	}
	if l.clientConfig, err = l.clients.issue("root", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}); err != nil {
		return err
	}
	return errors.Join(l.secret(ctx, serverSecret, server), l.secret(ctx, peerSecret, peer), l.secret(ctx, clientSecret, l.clientConfig))
}

// secret creates or replaces a Secret.
func (l *lab) secret(ctx context.Context, name string, data map[string][]byte) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}, Data: data}
	err := l.Client.Create(ctx, s)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
		return err
	}
	s.Data = data
	return l.Client.Update(ctx, s)
}

// cluster is the object as the charts write it, small.
func (l *lab) cluster(replicas int32) *etcdv1alpha2.EtcdCluster {
	ref := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	return &etcdv1alpha2.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: clusterName},
		Spec: etcdv1alpha2.EtcdClusterSpec{
			Version: l.Version, Replicas: ptr.To(replicas), Storage: etcdv1alpha2.StorageSpec{Size: resource.MustParse("1Gi")},
			TLS: &etcdv1alpha2.TLSSpec{
				Client: &etcdv1alpha2.ClientTLS{ServerSecretRef: ref(serverSecret), OperatorClientSecretRef: ref(clientSecret)},
				Peer:   &etcdv1alpha2.PeerTLS{SecretRef: ref(peerSecret)},
			},
			Options:            &etcdv1alpha2.EtcdOptions{SnapshotCount: ptr.To[int64](10000)},
			AdditionalMetadata: &etcdv1alpha2.AdditionalMetadata{Labels: map[string]string{"contract": "yes"}},
		},
	}
}

// running brings a cluster up and waits until it is whole.
func (l *lab) running(ctx context.Context, replicas int32) (*etcdv1alpha2.EtcdCluster, error) {
	if err := l.certificates(ctx); err != nil {
		return nil, err
	}
	c := l.cluster(replicas)
	if err := l.Client.Create(ctx, c); err != nil {
		return nil, err
	}
	return c, l.whole(ctx, c)
}

// whole waits for Progressing=False/Reconciled at the current generation with every member ready.
func (l *lab) whole(ctx context.Context, c *etcdv1alpha2.EtcdCluster) error {
	return l.until(ctx, "a whole cluster", func() error {
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		cond := meta.FindStatusCondition(c.Status.Conditions, etcdv1alpha2.ConditionProgressing)
		if cond == nil || cond.Reason != etcdv1alpha2.ReasonReconciled || cond.ObservedGeneration != c.Generation || c.Status.ReadyMembers != *c.Spec.Replicas {
			return fmt.Errorf("%d ready, %s", c.Status.ReadyMembers, describe(c.Status.Conditions))
		}
		return nil
	})
}

// until repeats a look until it finds nothing to complain about.
func (l *lab) until(ctx context.Context, what string, look func() error) error {
	return l.within(ctx, l.Patience, what, look)
}

func (l *lab) within(ctx context.Context, limit time.Duration, what string, look func() error) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), err)
		case <-end.C:
			return fmt.Errorf("waited %s for %s: %w", limit, what, err)
		case <-tick.C:
		}
	}
}

// stays checks that a look finds nothing to complain about for the quiet time.
func (l *lab) stays(ctx context.Context, what string, look func() error) error {
	end := time.NewTimer(l.Quiet)
	defer end.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := look(); err != nil {
			return fmt.Errorf("%s does not last: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
}

func (l *lab) none(ctx context.Context, list client.ObjectList) error {
	if err := l.Client.List(ctx, list, client.InNamespace(l.ns)); err != nil {
		return err
	}
	if n := meta.LenList(list); n > 0 {
		return fmt.Errorf("%d are left in %T", n, list)
	}
	return nil
}

// members lists the cluster's members, the oldest first.
func (l *lab) members(ctx context.Context) ([]etcdv1alpha2.EtcdMember, error) {
	list := &etcdv1alpha2.EtcdMemberList{}
	err := l.Client.List(ctx, list, client.InNamespace(l.ns))
	items := list.Items
	for i := range items {
		for j := i; j > 0 && items[j].CreationTimestamp.Before(&items[j-1].CreationTimestamp); j-- {
			items[j], items[j-1] = items[j-1], items[j]
		}
	}
	return items, err
}

// memberPods are the Pods controlled by an EtcdMember, nothing else.
func (l *lab) memberPods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := l.Client.List(ctx, list, client.InNamespace(l.ns)); err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range list.Items {
		if owner := metav1.GetControllerOf(&p); owner != nil && owner.Kind == "EtcdMember" {
			out = append(out, p)
		}
	}
	return out, nil
}

// etcd opens a client that dials a host by its real name and verifies it.
func (l *lab) etcd(ctx context.Context, host string, config map[string][]byte) (*clientv3.Client, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.clients.pem)
	secure := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if config != nil {
		pair, err := tls.X509KeyPair(config["tls.crt"], config["tls.key"])
		if err != nil {
			return nil, err
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	return clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{"https://" + host + ":2379"}, TLS: secure, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			name, _, err := net.SplitHostPort(addr)
			if err != nil {
				name = addr
			}
			return l.Dial(ctx, name)
		})},
	})
}

func (l *lab) serviceHost() string { return clusterName + "-client." + l.ns + ".svc" }

func (l *lab) memberHost(member string) string {
	return member + "." + clusterName + "." + l.ns + ".svc"
}

// callLimit bounds one exchange with etcd.
const callLimit = 3 * time.Second

// ask calls f with a client of the client Service until it succeeds.
func (l *lab) ask(ctx context.Context, host string, f func(context.Context, *clientv3.Client) error) error {
	return l.until(ctx, "an answer from "+host, func() error {
		call, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		c, err := l.etcd(call, host, l.clientConfig)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return f(call, c)
	})
}
