package kamaji

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TLSWithoutCertificate trusts the DataStore's authority and presents nothing; an etcd with client authentication refuses it.
func TLSWithoutCertificate(ctx context.Context, c client.Reader, name string) (*tls.Config, []string, error) {
	ds, ca, err := liveAuthority(ctx, c, name)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := clientTLS(ca.pool(), nil, nil)
	return cfg, ds.Spec.Endpoints, err
}

// TLSOfOtherCA presents a certificate for root signed by another authority, such as the peer CA, whose Secret holds tls.crt and tls.key; an etcd with separate authorities refuses it.
func TLSOfOtherCA(ctx context.Context, c client.Reader, name string, other types.NamespacedName) (*tls.Config, []string, error) {
	ds, ca, err := liveAuthority(ctx, c, name)
	if err != nil {
		return nil, nil, err
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, other, secret); err != nil {
		return nil, nil, err
	}
	foreign, err := parseAuthority(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, nil, fmt.Errorf("secret %s: %w", other, err)
	}
	certPEM, keyPEM, err := foreign.issue(RootUser)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := clientTLS(ca.pool(), certPEM, keyPEM)
	if err != nil {
		return nil, nil, err
	}
	// Go's client keeps a certificate to itself whose authority the server does not ask for, and is then refused for having none.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cfg.Certificates[0], nil }
	return cfg, ds.Spec.Endpoints, nil
}

// Refusal is the TLS alert with which the first endpoint's server ends the handshake; it is empty where the server speaks to such a client. A server that
// cannot be reached, hangs, or is not trusted itself is an error, as nothing is shown by that.
func Refusal(ctx context.Context, cfg *tls.Config, endpoints []string, resolve Resolve) (string, error) {
	host, _, err := net.SplitHostPort(endpoints[0])
	if err != nil {
		return "", fmt.Errorf("endpoint %q: %w", endpoints[0], err)
	}
	cfg = cfg.Clone()
	cfg.ServerName, cfg.NextProtos = host, []string{"h2"}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", resolve(host))
	if err == nil {
		// In TLS 1.3 the client is done before the server has seen its certificate, so the alert comes in the place of HTTP/2's first frame.
		defer func() { _ = conn.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(dialTimeout))
		_, err = conn.Read(make([]byte, 1))
	}
	if remote := (*net.OpError)(nil); errors.As(err, &remote) && remote.Op == "remote error" {
		return remote.Err.Error(), nil
	}
	return "", err
}
