// Package crash kills the shipped controller after each of its writes and compares what is left in the end with an undisturbed run.
package crash

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy stands between the controller and the API server and counts the controller's writes. Events and Leases do not count: losing one loses nothing.
type Proxy struct {
	URL string

	server *http.Server
	mu     sync.Mutex
	writes []string
	killAt int
	kill   func()
}

// NewProxy forwards to the API server of config with the bearer token of the controller: a kubeconfig without TLS would drop it. It listens on loopback
// until Close.
func NewProxy(config *rest.Config, token string) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	ca := config.CAData
	if len(ca) == 0 {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, err
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("the API server's CA is no PEM certificate")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{URL: "http://" + listener.Addr().String()}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		FlushInterval:  -1,
		ModifyResponse: p.count,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = &http.Server{Handler: forward, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Close ends the proxy.
func (p *Proxy) Close() { _ = p.server.Close() }

// Arm forgets the writes so far and calls kill as soon as the API server has carried out the n-th from now, before the controller hears of it. 0 never kills.
func (p *Proxy) Arm(n int, kill func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.killAt, p.kill = nil, n, kill
}

// Writes lists the writes since Arm.
func (p *Proxy) Writes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.writes...)
}

func (p *Proxy) count(r *http.Response) error {
	if !isWrite(r) {
		return nil
	}
	p.mu.Lock()
	p.writes = append(p.writes, r.Request.Method+" "+shortPath(r.Request.URL.Path))
	var kill func()
	if p.killAt > 0 && len(p.writes) == p.killAt {
		kill = p.kill
	}
	p.mu.Unlock()
	if kill != nil {
		kill()
		return fmt.Errorf("the controller is dead")
	}
	return nil
}

func isWrite(r *http.Response) bool {
	switch r.Request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	path := r.Request.URL.Path
	dry := r.Request.URL.Query().Get("dryRun") != ""
	return r.StatusCode < 300 && !dry && !strings.Contains(path, "/events") && !strings.Contains(path, "/leases") && !strings.Contains(path, "/authorization.k8s.io/")
}

// shortPath drops what is the same in every path: /apis/GROUP/VERSION/namespaces/NAMESPACE/.
func shortPath(path string) string {
	if _, rest, ok := strings.Cut(path, "/namespaces/"); ok {
		if _, resource, ok := strings.Cut(rest, "/"); ok {
			return resource
		}
	}
	return path
}
