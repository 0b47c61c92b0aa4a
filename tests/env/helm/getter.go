package helm

import (
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// getter hands the client's shared parts to Helm together with a default namespace.
type getter struct {
	*Client
	namespace string
}

// ToRESTConfig returns a copy, because kubectl's factory writes into what it gets.
func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient returns the shared client; Helm invalidates it before it computes capabilities.
func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper returns the shared mapper.
func (g *getter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

// ToRawKubeConfigLoader tells the default namespace; there is no kubeconfig file.
func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}

// fieldManager writes under the helm command's name: the SDK would use the name of the running program, and its package variable would rename every Helm client of
// this process.
type fieldManager struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f fieldManager) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if !q.Has("fieldManager") || q.Get("fieldManager") == FieldManager {
		return f.next.RoundTrip(r)
	}
	q.Set("fieldManager", FieldManager)
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	return f.next.RoundTrip(r)
}
