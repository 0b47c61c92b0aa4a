package live

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// C09, C12, C13: the certificates that cert-manager really makes of the chart.
func issuesUsableCertificates(t *testing.T, f *fixture) {
	const ns = "certs"
	f.install(t, ns, values{"clusterDomain": "cozy.local"})
	secrets := f.secrets(t, ns)

	for name, commonName := range map[string]string{"etcd-ca-tls": "etcd-ca", "etcd-peer-ca-tls": "etcd-peer-ca"} {
		ca := parse(t, secrets[name]["tls.crt"])
		require.True(t, ca.IsCA)
		require.Equal(t, commonName, ca.Subject.CommonName)
		require.Equal(t, []string{ns}, ca.Subject.Organization)
		require.Equal(t, []string{"etcd"}, ca.Subject.OrganizationalUnit)
		require.Equal(t, 87600*time.Hour, ca.NotAfter.Sub(ca.NotBefore).Round(time.Minute))
		key, ok := ca.PublicKey.(*rsa.PublicKey)
		require.True(t, ok)
		require.Equal(t, 4096, key.N.BitLen())
	}
	server := verify(t, secrets["etcd-server-tls"], secrets["etcd-ca-tls"], x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	peer := verify(t, secrets["etcd-peer-tls"], secrets["etcd-peer-ca-tls"], x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	user := verify(t, secrets["etcd-client-tls"], secrets["etcd-ca-tls"], x509.ExtKeyUsageClientAuth)
	require.Equal(t, "root", user.Subject.CommonName)
	require.NotContains(t, user.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	for _, host := range []string{
		"etcd." + ns + ".svc", "etcd-client." + ns + ".svc", fmt.Sprintf("etcd-abcde.etcd.%s.svc", ns),
		fmt.Sprintf("etcd-abcde.etcd.%s.svc.cozy.local", ns), fmt.Sprintf("etcd-client.%s.svc.cozy.local", ns), "localhost", "127.0.0.1", "::1",
	} {
		require.NoError(t, server.VerifyHostname(host))
		require.NoError(t, peer.VerifyHostname(host))
	}
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return certificate
}

// verify checks that a leaf chains to its authority and to the bundle in its own Secret, for each of the usages.
func verify(t *testing.T, leaf, authority map[string][]byte, usages ...x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	certificate := parse(t, leaf["tls.crt"])
	for _, bundle := range [][]byte{authority["tls.crt"], leaf["ca.crt"]} {
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(bundle))
		for _, usage := range append(usages, x509.ExtKeyUsageClientAuth) {
			_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
			require.NoError(t, err)
		}
	}
	return certificate
}
