package chart

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// dialled is every URL by which a member, the operator, the snapshot Job, Kamaji or a person reaches etcd, and every name that a reverse look-up of a member gives.
func dialled(namespace, domain string) []string {
	member := "etcd-x7k2p"
	urls := []string{"https://localhost:2379", "https://127.0.0.1:2379", "https://[::1]:2379", "https://etcd:2379"}
	for _, suffix := range []string{"svc", "svc." + domain} {
		urls = append(urls,
			fmt.Sprintf("https://etcd.%s.%s:2379", namespace, suffix),
			fmt.Sprintf("https://etcd-client.%s.%s:2379", namespace, suffix),
			fmt.Sprintf("https://%s.etcd.%s.%s:2379", member, namespace, suffix),
			fmt.Sprintf("https://%s.etcd.%s.%s:2380", member, namespace, suffix),
			fmt.Sprintf("https://%s.etcd-headless.%s.%s:2380", member, namespace, suffix),
			fmt.Sprintf("https://etcd-0.etcd-headless.%s.%s:2379", namespace, suffix),
		)
	}
	return urls
}

// asX509 is a rendered Certificate with the names that the real one would carry, so that Go's own matching decides.
func asX509(t *testing.T, object *unstructured.Unstructured) *x509.Certificate {
	t.Helper()
	names, _, err := unstructured.NestedStringSlice(object.Object, "spec", "dnsNames")
	require.NoError(t, err)
	addresses, _, err := unstructured.NestedStringSlice(object.Object, "spec", "ipAddresses")
	require.NoError(t, err)
	certificate := &x509.Certificate{DNSNames: names}
	for _, address := range addresses {
		ip := net.ParseIP(address)
		require.NotNil(t, ip, address)
		certificate.IPAddresses = append(certificate.IPAddresses, ip)
	}
	return certificate
}

// C12, C07: the names in the server and peer certificates against all that is dialled; the wildcard covers one label, so no form may lean on another.
func TestC12NamesCoverWhatIsDialled(t *testing.T) {
	for _, c := range []struct{ values, domain string }{
		{"", "cluster.local"},
		{"_cluster: {cluster-domain: cozy.local}", "cozy.local"},
		{"clusterDomain: k8s.example.org\n_cluster: {cluster-domain: cozy.local}", "k8s.example.org"},
		{"replicas: 1", "cluster.local"},
		{"replicas: 5", "cluster.local"},
	} {
		t.Run(c.values, func(t *testing.T) {
			objects, err := Objects(Request{Values: c.values, Namespace: "tenant-acme-prod"})
			require.NoError(t, err)
			for _, name := range []string{"etcd-server", "etcd-peer"} {
				certificate := asX509(t, find(t, objects, "Certificate", name))
				for _, address := range dialled("tenant-acme-prod", c.domain) {
					parsed, err := url.Parse(address)
					require.NoError(t, err)
					require.NoError(t, certificate.VerifyHostname(parsed.Hostname()), "%s: %s", name, address)
				}
				for _, foreign := range []string{"a.b.etcd.tenant-acme-prod.svc", "etcd.tenant-b.svc", "m.etcd.tenant-b.svc." + c.domain, "etcd.tenant-acme-prod.svc.other.domain", "127.0.0.2"} {
					require.Error(t, certificate.VerifyHostname(foreign), "%s: %s", name, foreign)
				}
			}
		})
	}
}

// C07: each host of the DataStore is a Service (the operator makes etcd and etcd-client) and stands in the server certificate, whatever the size and the namespace.
func TestC07EndpointsAreServicesAndInTheCertificate(t *testing.T) {
	for _, namespace := range []string{"tenant-a", "tenant-root", "t", "123", "a-namespace-of-the-greatest-length-that-kubernetes-allows-63-cha"} {
		for _, replicas := range []int{1, 3, 5} {
			objects, err := Objects(Request{Namespace: namespace, Values: fmt.Sprintf("replicas: %d", replicas)})
			require.NoError(t, err)
			services := map[string]bool{"etcd." + namespace + ".svc": true, "etcd-client." + namespace + ".svc": true}
			certificate := asX509(t, find(t, objects, "Certificate", "etcd-server"))
			endpoints, _, err := unstructured.NestedStringSlice(find(t, objects, "DataStore", namespace).Object, "spec", "endpoints")
			require.NoError(t, err)
			require.NotEmpty(t, endpoints)
			for _, endpoint := range endpoints {
				host, port, err := net.SplitHostPort(endpoint)
				require.NoError(t, err)
				require.Equal(t, "2379", port)
				require.True(t, services[host], endpoint)
				require.NoError(t, certificate.VerifyHostname(host))
			}
		}
	}
}

// Common names are limited to 64 bytes, whatever the namespace is called.
func TestCommonNamesAreShort(t *testing.T) {
	objects, err := Objects(Request{Namespace: "a-namespace-of-the-greatest-length-that-kubernetes-allows-63-cha"})
	require.NoError(t, err)
	for _, object := range objects {
		if object.GetKind() != "Certificate" {
			continue
		}
		name, _, err := unstructured.NestedString(object.Object, "spec", "commonName")
		require.NoError(t, err)
		require.LessOrEqual(t, len(name), 20, object.GetName())
	}
}

// C15: combinations that would renew in a loop, let a leaf outlive its authority, or that cert-manager cannot make.
func TestC15LifetimesAndKeys(t *testing.T) {
	for values, want := range map[string]string{
		"certificates: {leaf: {duration: 720h, renewBefore: 720h}}": "certificates.leaf.renewBefore: 720h",
		"certificates: {leaf: {duration: 720h, renewBefore: 721h}}": "certificates.leaf.renewBefore: 721h",
		"certificates: {leaf: {duration: 1h, renewBefore: 59m59s}}": "certificates.leaf.renewBefore: 59m59s leaves less",
		"certificates: {leaf: {duration: 720h, renewBefore: 685h}}": "certificates.leaf.renewBefore: 685h leaves less",
		"certificates: {ca: {renewBefore: 87599h59m}}":              "certificates.ca.renewBefore: 87599h59m leaves less",
		"certificates: {leaf: {renewBefore: 4m59s}}":                "certificates.leaf.renewBefore: 4m59s",
		"certificates: {leaf: {duration: 59m, renewBefore: 5m}}":    "certificates.leaf.duration: 59m",
		"certificates: {leaf: {duration: 87601h}}":                  "certificates.leaf.duration: 87601h",
		"certificates: {leaf: {duration: 29201h}}":                  "certificates.leaf.duration: 29201h",
		"certificates: {ca: {renewBefore: 2159h}}":                  "certificates.leaf.duration: 2160h",
		"certificates: {ca: {renewBefore: 87600h}}":                 "certificates.ca.renewBefore: 87600h",
		"certificates: {privateKey: {algorithm: ECDSA}}":            "certificates.privateKey.size: 4096 does not go with ECDSA; use 256, 384, 521",
		"certificates: {privateKey: {size: 1024}}":                  "certificates.privateKey.size: 1024 does not go with RSA",
		"certificates: {privateKey: {algorithm: DSA}}":              "'DSA'",
		"certificates: {leaf: {duration: 90d}}":                     "'90d'",
		"certificates: {leaf: {duration: null}}":                    "duration",
		"certificates: {ca: {duration: 2562048h}}":                  "certificates.ca.duration: 2562048h is more than",
	} {
		_, err := Render(Request{Values: values})
		require.ErrorContains(t, err, want, values)
	}
	for _, values := range []string{
		"certificates: {leaf: {duration: 29200h}}",
		"certificates: {leaf: {duration: 1h, renewBefore: 5m}}",
		"certificates: {leaf: {duration: 1h, renewBefore: 55m}}",
		"certificates: {leaf: {duration: 720h, renewBefore: 684h}}",
		"certificates: {leaf: {renewBefore: \"\"}}",
		"certificates: {leaf: {renewBefore: null}}",
		"certificates: {leaf: {duration: 2160h30m15s}}",
		"certificates: {ca: {duration: 8760h, renewBefore: 2160h}}",
		"certificates: {privateKey: {algorithm: ECDSA, size: 384}}",
		"certificates: {privateKey: {algorithm: RSA, size: 2048}}",
	} {
		_, err := Render(Request{Values: values})
		require.NoError(t, err, values)
	}
}
