// Package helm is what a person does with the helm command, through its SDK and against one environment. Errors are Helm's own.
package helm

import (
	"context"
	"fmt"
	"net/http"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// FieldManager owns what the helm command writes.
const FieldManager = "helm"

// Client runs Helm against one API server. It may be used from several goroutines.
type Client struct {
	config    *rest.Config
	mapper    meta.RESTMapper
	discovery discovery.CachedDiscoveryInterface
}

// New makes a client. Kinds are looked up when they are met first, so a chart that brings CRDs works too.
func New(config *rest.Config) (*Client, error) {
	cfg := rest.CopyConfig(config)
	cfg.QPS, cfg.UserAgent = -1, "Helm"
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return fieldManager{next} })
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("helm client: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("helm client: %w", err)
	}
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("helm client: %w", err)
	}
	return &Client{config: cfg, mapper: mapper, discovery: memory.NewMemCacheClient(dc)}, nil
}

// Install is helm install without --wait. chart is a folder or an archive.
func (c *Client) Install(ctx context.Context, namespace, name, chart string, values map[string]any) (*release.Release, error) {
	cfg, err := c.configuration(namespace)
	if err != nil {
		return nil, err
	}
	ch, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.DisableOpenAPIValidation = name, namespace, true
	return install.RunWithContext(ctx, ch, values)
}

// Upgrade is helm upgrade with exactly these values: former ones are not reused.
func (c *Client) Upgrade(ctx context.Context, namespace, name, chart string, values map[string]any) (*release.Release, error) {
	cfg, err := c.configuration(namespace)
	if err != nil {
		return nil, err
	}
	ch, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.ResetValues, upgrade.DisableOpenAPIValidation = namespace, true, true
	return upgrade.RunWithContext(ctx, name, ch, values)
}

// Uninstall is helm uninstall.
func (c *Client) Uninstall(namespace, name string) error {
	cfg, err := c.configuration(namespace)
	if err != nil {
		return err
	}
	_, err = action.NewUninstall(cfg).Run(name)
	return err
}

// Get is the newest revision of a release with its manifest and values.
func (c *Client) Get(namespace, name string) (*release.Release, error) {
	cfg, err := c.configuration(namespace)
	if err != nil {
		return nil, err
	}
	return action.NewGet(cfg).Run(name)
}

func (c *Client) configuration(namespace string) (*action.Configuration, error) {
	cfg := &action.Configuration{}
	quiet := func(string, ...any) {}
	if err := cfg.Init(&getter{Client: c, namespace: namespace}, namespace, "secret", quiet); err != nil {
		return nil, err
	}
	return cfg, nil
}
