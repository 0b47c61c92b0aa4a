package etcdoperator

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// callTimeout bounds each call to etcd; it is short, as the processes are near.
const callTimeout = 1500 * time.Millisecond

// withEtcd calls f with a client for the given members, which dials their real names and verifies them.
func (o *Operator) withEtcd(ctx context.Context, c *etcdv1alpha2.EtcdCluster, ms []etcdv1alpha2.EtcdMember, f func(context.Context, *clientv3.Client) error) error {
	if len(ms) == 0 {
		return errors.New("no member to dial")
	}
	config := clientv3.Config{Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(o.dialMember)}}
	for i := range ms {
		config.Endpoints = append(config.Endpoints, clientURL(&ms[i]))
	}
	var err error
	if config.TLS, err = o.operatorTLS(ctx, c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	config.Context = ctx
	etcd, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	return f(ctx, etcd)
}

func (o *Operator) dialMember(ctx context.Context, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return o.opts.Router.DialContext(ctx, host)
}

// operatorTLS is the operator's identity; the trust is the ca.crt of the server Secret.
func (o *Operator) operatorTLS(ctx context.Context, c *etcdv1alpha2.EtcdCluster) (*tls.Config, error) {
	if c.Spec.TLS == nil || c.Spec.TLS.Client == nil || c.Spec.TLS.Client.ServerSecretRef == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.TLS.Client.ServerSecretRef.Name}, secret); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, fmt.Errorf("no certificate in ca.crt of Secret %s", secret.Name)
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.opts.Mutant == TLSNamesUnverified} //nolint:gosec // only the mutant
	if ref := c.Spec.TLS.Client.OperatorClientSecretRef; ref != nil {
		if err := o.client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: ref.Name}, secret); err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
