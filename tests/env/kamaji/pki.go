package kamaji

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// authority signs client certificates as Kamaji does for each tenant.
type authority struct {
	pem  []byte
	cert *x509.Certificate
	key  crypto.Signer
}

func parseAuthority(certPEM, keyPEM []byte) (*authority, error) {
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("CA certificate: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("CA private key: %w", err)
	}
	public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(key.Public()) {
		return nil, errors.New("CA private key does not belong to the CA certificate")
	}
	return &authority{pem: certPEM, cert: cert, key: key}, nil
}

func parseCertificate(p []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(bytes.TrimSpace(p))
	if block == nil {
		return nil, fmt.Errorf("no PEM block in %d bytes", len(p))
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(p []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(bytes.TrimSpace(p))
	if block == nil {
		return nil, fmt.Errorf("no PEM block in %d bytes", len(p))
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	k, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	return k, nil
}

// issue makes a key and a client certificate for a common name, both in PEM.
func (a *authority) issue(commonName string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(365 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate for %q: %w", commonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// issued tells whether this authority, with this key, signed the certificate and it has not run out.
func (a *authority) issued(certPEM []byte) bool {
	cert, err := parseCertificate(certPEM)
	return err == nil && cert.CheckSignatureFrom(a.cert) == nil && time.Now().Before(cert.NotAfter)
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// clientTLS verifies the server by roots and presents the given pair; an empty pair presents nothing.
func clientTLS(roots *x509.CertPool, certPEM, keyPEM []byte) (*tls.Config, error) {
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if len(certPEM) == 0 {
		return cfg, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}
