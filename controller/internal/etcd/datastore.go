package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

// AsDataStore makes a target speak as a DataStore's own client: with its trust, its certificate, and its user where it names one. It reads exactly the Secrets
// that the DataStore names, so reader should be uncached.
func AsDataStore(ctx context.Context, reader client.Reader, store *kamajiv1alpha1.DataStore, target Target) (Target, error) {
	d := dataStore{reader: reader, store: store}
	spec := store.Spec.TLSConfig
	if spec == nil || spec.ClientCertificate == nil {
		return target, fmt.Errorf("DataStore %s: spec.tlsConfig.clientCertificate is not set: Kamaji cannot log in without it", store.Name)
	}
	roots := x509.NewCertPool()
	if ca := d.content(ctx, "tlsConfig.certificateAuthority.certificate", spec.CertificateAuthority.Certificate); d.err == nil && !roots.AppendCertsFromPEM(ca) {
		return target, fmt.Errorf("DataStore %s: spec.tlsConfig.certificateAuthority.certificate%s holds no certificate in PEM", store.Name, from(spec.CertificateAuthority.Certificate))
	}
	certificate := d.content(ctx, "tlsConfig.clientCertificate.certificate", spec.ClientCertificate.Certificate)
	key := d.content(ctx, "tlsConfig.clientCertificate.privateKey", spec.ClientCertificate.PrivateKey)
	if basic := store.Spec.BasicAuth; basic != nil {
		target.User = string(d.content(ctx, "basicAuth.username", basic.Username))
		target.Password = string(d.content(ctx, "basicAuth.password", basic.Password))
	}
	if d.err != nil {
		return target, d.err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return target, fmt.Errorf("DataStore %s: spec.tlsConfig.clientCertificate%s is no key pair: %w", store.Name, from(spec.ClientCertificate.Certificate), err)
	}
	target.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
	return target, nil
}

// dataStore keeps the first errors, so that one message names all that is missing.
type dataStore struct {
	reader client.Reader
	store  *kamajiv1alpha1.DataStore
	err    error
}

func (d *dataStore) content(ctx context.Context, field string, ref kamajiv1alpha1.ContentRef) []byte {
	if len(ref.Content) > 0 || ref.SecretReference == nil {
		return ref.Content
	}
	s := ref.SecretReference
	secret, err := secretOf(ctx, d.reader, s.Namespace, s.Name)
	if err == nil && len(secret.Data[s.KeyPath]) == 0 {
		err = fmt.Errorf("Secret %s/%s has nothing under %s", s.Namespace, s.Name, s.KeyPath)
	}
	if err != nil {
		d.err = errors.Join(d.err, fmt.Errorf("DataStore %s: spec.%s: %w", d.store.Name, field, err))
		return nil
	}
	return secret.Data[s.KeyPath]
}

func from(ref kamajiv1alpha1.ContentRef) string {
	if s := ref.SecretReference; s != nil && len(ref.Content) == 0 {
		return fmt.Sprintf(", Secret %s/%s,", s.Namespace, s.Name)
	}
	return ""
}
