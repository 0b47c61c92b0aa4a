package kamaji

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

// Resolve gives the address to dial for an endpoint's host; the certificate is still verified for the host. Nil dials the host itself.
type Resolve func(host string) string

// RootUser is the common name that etcd takes for root while auth is on, and any name while it is off.
const RootUser = "root"

const dialTimeout = 5 * time.Second

// ClientFromDataStore makes an etcd client from nothing but the live DataStore: it trusts the DataStore's certificateAuthority, asks for the endpoint's host by name, and presents a fresh certificate signed with the
// DataStore's private key. That is what Kamaji does for a tenant, so a client made this way works exactly where a tenant would.
func ClientFromDataStore(ctx context.Context, c client.Reader, name string, resolve Resolve) (*clientv3.Client, error) {
	return ClientForUser(ctx, c, name, RootUser, resolve)
}

// ClientForUser is ClientFromDataStore with another common name.
func ClientForUser(ctx context.Context, c client.Reader, name, commonName string, resolve Resolve) (*clientv3.Client, error) {
	cfg, endpoints, err := TLSFromDataStore(ctx, c, name, commonName)
	if err != nil {
		return nil, err
	}
	return dial(endpoints, cfg, resolve)
}

// TLSFromDataStore is the TLS side of ClientFromDataStore, with the DataStore's endpoints as host:port.
func TLSFromDataStore(ctx context.Context, c client.Reader, name, commonName string) (*tls.Config, []string, error) {
	ds, ca, err := liveAuthority(ctx, c, name)
	if err != nil {
		return nil, nil, err
	}
	certPEM, keyPEM, err := ca.issue(commonName)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := clientTLS(ca.pool(), certPEM, keyPEM)
	return cfg, ds.Spec.Endpoints, err
}

// PEMFromDataStore is what a tenant's API server gets as files: the authority, and a fresh certificate for the common name with its key.
func PEMFromDataStore(ctx context.Context, c client.Reader, name, commonName string) (ca, cert, key []byte, err error) {
	_, authority, err := liveAuthority(ctx, c, name)
	if err != nil {
		return nil, nil, nil, err
	}
	cert, key, err = authority.issue(commonName)
	return authority.pem, cert, key, err
}

// ownClient is Kamaji's own connection: with the DataStore's client certificate.
func ownClient(ctx context.Context, c client.Reader, ds *kamajiv1alpha1.DataStore, ca *authority, resolve Resolve) (*clientv3.Client, error) {
	pair := ds.Spec.TLSConfig.ClientCertificate
	if pair == nil {
		return nil, errors.New("spec.tlsConfig.clientCertificate is missing")
	}
	certPEM, err := content(ctx, c, pair.Certificate)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	keyPEM, err := content(ctx, c, pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("client private key: %w", err)
	}
	if len(certPEM) == 0 || len(keyPEM) == 0 {
		return nil, errors.New("the client certificate or its key is empty")
	}
	cfg, err := clientTLS(ca.pool(), certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	return dial(ds.Spec.Endpoints, cfg, resolve)
}

// dial makes a client that connects lazily; the caller closes it.
func dial(endpoints []string, cfg *tls.Config, resolve Resolve) (*clientv3.Client, error) {
	urls := make([]string, len(endpoints))
	for i, e := range endpoints {
		urls[i] = "https://" + e
	}
	host, _, err := net.SplitHostPort(endpoints[0])
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoints[0], err)
	}
	if len(endpoints) == 1 {
		cfg.ServerName = host
	}
	dialer := func(ctx context.Context, addr string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(addr); err == nil && resolve != nil {
			addr = resolve(host)
		}
		d := net.Dialer{Timeout: dialTimeout}
		return d.DialContext(ctx, "tcp", addr)
	}
	return clientv3.New(clientv3.Config{
		Endpoints: urls, TLS: cfg, DialTimeout: dialTimeout, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dialer)},
	})
}

// liveAuthority reads the DataStore and the authority that it names.
func liveAuthority(ctx context.Context, c client.Reader, name string) (*kamajiv1alpha1.DataStore, *authority, error) {
	ds := &kamajiv1alpha1.DataStore{}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, ds); err != nil {
		return nil, nil, err
	}
	ca, err := authorityOf(ctx, c, ds)
	if err != nil {
		return nil, nil, fmt.Errorf("DataStore %s: %w", name, err)
	}
	return ds, ca, nil
}

func authorityOf(ctx context.Context, c client.Reader, ds *kamajiv1alpha1.DataStore) (*authority, error) {
	if ds.Spec.TLSConfig == nil || ds.Spec.TLSConfig.CertificateAuthority.PrivateKey == nil {
		return nil, errors.New("spec.tlsConfig.certificateAuthority.privateKey is missing")
	}
	spec := ds.Spec.TLSConfig.CertificateAuthority
	certPEM, err := content(ctx, c, spec.Certificate)
	if err != nil {
		return nil, fmt.Errorf("CA certificate: %w", err)
	}
	keyPEM, err := content(ctx, c, *spec.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("CA private key: %w", err)
	}
	return parseAuthority(certPEM, keyPEM)
}

// content reads bytes given in the spec or in a Secret. Empty bytes under a key that exists are no error, as in Kamaji.
func content(ctx context.Context, c client.Reader, ref kamajiv1alpha1.ContentRef) ([]byte, error) {
	if len(ref.Content) > 0 {
		return ref.Content, nil
	}
	s := ref.SecretReference
	if s == nil || s.Name == "" || s.Namespace == "" {
		return nil, errors.New("neither content nor the name and namespace of a Secret are given")
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, secret); err != nil {
		return nil, err
	}
	b, ok := secret.Data[s.KeyPath]
	if !ok {
		return nil, fmt.Errorf("secret %s/%s has no key %q", s.Namespace, s.Name, s.KeyPath)
	}
	return b, nil
}
