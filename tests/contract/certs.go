package contract

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority signs the certificates of one plane. The facts make their own, so that they can leave out what a chart would put in.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

var bothUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// issue returns a Secret's content: tls.crt, tls.key and ca.crt.
func (a *authority) issue(name string, usages []x509.ExtKeyUsage, names ...string) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, usages
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"ca.crt":  a.pem,
	}, nil
}

// serverNames are the SANs of a server certificate that everything works with.
func serverNames(namespace, domain string) []string {
	base := clusterName + "." + namespace + ".svc"
	client := clusterName + "-client." + namespace + ".svc"
	return []string{base, base + "." + domain, client, client + "." + domain, "*." + base, "*." + base + "." + domain, "localhost", "127.0.0.1"}
}

// peerNames leave the bare name of the headless Service out: it would make the others unnecessary.
func peerNames(namespace, domain string) []string {
	base := clusterName + "." + namespace + ".svc"
	return []string{"*." + base, "*." + base + "." + domain}
}

func without(names []string, drop string) []string {
	var kept []string
	for _, n := range names {
		if n != drop {
			kept = append(kept, n)
		}
	}
	return kept
}

func describe(cond any) string { return fmt.Sprintf("%+v", cond) }
