package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// Keys of a TLS Secret. The CA's is cert-manager's name for it.
const caKey = "ca.crt"

// TLSFor builds a client's TLS from the Secrets that the cluster's spec names: roots from ca.crt of the server's Secret, which is the trust of clients too,
// and a certificate from the operator's client Secret where there is one. It reads exactly those Secrets, so reader should be uncached. A cluster without
// client TLS gives nil. Certificates that the operator itself asks cert-manager for are not supported, as the names of their Secrets are not in the spec.
func TLSFor(ctx context.Context, reader client.Reader, cluster *etcdv1alpha2.EtcdCluster) (*tls.Config, error) {
	if cluster.Spec.TLS == nil || cluster.Spec.TLS.Client == nil {
		return nil, nil
	}
	spec := cluster.Spec.TLS.Client
	if spec.ServerSecretRef == nil {
		return nil, fmt.Errorf("EtcdCluster %s/%s: spec.tls.client.serverSecretRef is not set: certificates that the operator requests itself are not supported",
			cluster.Namespace, cluster.Name)
	}
	server, err := secretOf(ctx, reader, cluster.Namespace, spec.ServerSecretRef.Name)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(server.Data[caKey]) {
		return nil, fmt.Errorf("Secret %s/%s: %s holds no certificate", server.Namespace, server.Name, caKey)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if spec.OperatorClientSecretRef == nil {
		return config, nil
	}
	own, err := secretOf(ctx, reader, cluster.Namespace, spec.OperatorClientSecretRef.Name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(own.Data[corev1.TLSCertKey], own.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s: %s and %s are no key pair: %w", own.Namespace, own.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

func secretOf(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	}
	return secret, nil
}
