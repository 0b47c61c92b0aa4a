package helmcontroller

import (
	"fmt"
	"net/http"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// FieldManager is the name under which Flux's helm-controller owns fields, in either apply method.
const FieldManager = "helm-controller"

// sdk reaches one API server through Helm's SDK. The mapper learns kinds as they are met and keeps them, so that an action costs its own requests and little else.
type sdk struct {
	config    *rest.Config
	mapper    meta.RESTMapper
	discovery discovery.CachedDiscoveryInterface
}

func newSDK(config *rest.Config) (*sdk, error) {
	cfg := rest.CopyConfig(config)
	cfg.QPS = -1 // the client-side limit of five requests a second would dominate every action
	cfg.UserAgent = FieldManager
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return managerName{next} })
	http, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("HTTP client of the Helm SDK: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, http)
	if err != nil {
		return nil, fmt.Errorf("REST mapper of the Helm SDK: %w", err)
	}
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, http)
	if err != nil {
		return nil, fmt.Errorf("discovery client of the Helm SDK: %w", err)
	}
	return &sdk{config: cfg, mapper: mapper, discovery: memory.NewMemCacheClient(dc)}, nil
}

// configuration is what one Helm action needs. Release records are Secrets in storageNamespace; objects without a namespace go to namespace.
func (s *sdk) configuration(storageNamespace, namespace string, o clientOptions) (*action.Configuration, error) {
	getter := &clientGetter{sdk: s, namespace: namespace}
	cfg := &action.Configuration{}
	if err := cfg.Init(getter, storageNamespace, "secret", o.log); err != nil {
		return nil, fmt.Errorf("start Helm: %w", err)
	}
	inner := kube.New(getter)
	inner.Namespace, inner.Log = namespace, o.log
	cfg.KubeClient = &helmClient{Client: inner, opts: o}
	return cfg, nil
}

// clientGetter hands the memoised parts to Helm.
type clientGetter struct {
	*sdk
	namespace string
}

// ToRESTConfig returns a copy, because kubectl's factory writes into what it gets.
func (g *clientGetter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient returns the memoised client; Helm invalidates it before it computes the capabilities.
func (g *clientGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper returns a mapper that looks an unknown kind up again, so CRDs installed later are found.
func (g *clientGetter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

// ToRawKubeConfigLoader tells the default namespace; there is no kubeconfig file.
func (g *clientGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}

// managerName makes Helm write under helm-controller's name. Helm 3 derives the field manager from the program's name unless a package variable says otherwise, and that variable would also rename
// the other Helm clients of this process.
type managerName struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m managerName) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if !q.Has("fieldManager") || q.Get("fieldManager") == FieldManager {
		return m.next.RoundTrip(r)
	}
	q.Set("fieldManager", FieldManager)
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	return m.next.RoundTrip(r)
}
