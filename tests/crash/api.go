package crash

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
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

// API stands between the controller and the API server. Besides what the journal asks for it can delay watches and refuse status writes.
type API struct {
	URL string

	journal *Journal
	server  *http.Server
	mu      sync.Mutex
	lag     time.Duration
	refused map[string]bool // by path, whether its last status write was; nil: no conflicts
	count   int
}

// NewAPI forwards to the API server of config with the bearer token of the controller: a kubeconfig without TLS would drop it. It listens on loopback until
// Close.
func NewAPI(config *rest.Config, token string, j *Journal) (*API, error) {
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
		return nil, errors.New("the API server's CA is no PEM certificate")
	}
	a := &API{journal: j}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		FlushInterval:  -1,
		ModifyResponse: a.answer,
		ErrorHandler:   fail,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	a.server, a.URL, err = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isWrite(r):
		case a.conflicts(r):
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","message":"a conflict on request","code":409}`)
			return
		case j.before(named(r)) != nil:
			fail(w, r, errDisturbed)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	return a, err
}

func serve(h http.Handler) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return server, "http://" + listener.Addr().String(), nil
}

func fail(w http.ResponseWriter, _ *http.Request, _ error) {
	w.WriteHeader(http.StatusInternalServerError)
}

// Close ends the proxy.
func (a *API) Close() { _ = a.server.Close() }

// Lag delays every watch from now on: the controller's caches are that much behind.
func (a *API) Lag(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lag = d
}

// Conflict refuses every other write of a status from now on, as if somebody else had been faster.
func (a *API) Conflict() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = map[string]bool{}
}

// Conflicts tells how many writes were refused since Conflict.
func (a *API) Conflicts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

func (a *API) conflicts(r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused == nil || !strings.HasSuffix(r.URL.Path, "/status") {
		return false
	}
	a.refused[r.URL.Path] = !a.refused[r.URL.Path]
	if a.refused[r.URL.Path] {
		a.count++
	}
	return a.refused[r.URL.Path]
}

func (a *API) answer(r *http.Response) error {
	a.mu.Lock()
	lag := a.lag
	a.mu.Unlock()
	if lag > 0 && r.Request.URL.Query().Get("watch") != "" {
		r.Body = delay(r.Body, lag)
	}
	if !isWrite(r.Request) || r.StatusCode >= 300 {
		return nil
	}
	return a.journal.after(named(r.Request))
}

func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	path := r.URL.Path
	return r.URL.Query().Get("dryRun") == "" && !strings.Contains(path, "/events") && !strings.HasSuffix(path, "/leases/etcd-controller.cozy-etcd.io") &&
		!strings.Contains(path, "/authorization.k8s.io/")
}

// named is what the journal calls a write.
func named(r *http.Request) string { return r.Method + " " + quiet(shortPath(r.URL.Path)) }

// shortPath drops what is the same in every path: /apis/GROUP/VERSION/ and namespaces/NAMESPACE/.
func shortPath(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	skip := 3
	if parts[0] == "api" {
		skip = 2
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return strings.Join(parts, "/")
}

// delay hands on what it reads when it is that old.
func delay(body io.ReadCloser, by time.Duration) io.ReadCloser {
	out, in := io.Pipe()
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 4096)
	go func() {
		defer close(pieces)
		buffer := make([]byte, 64<<10)
		for {
			n, err := body.Read(buffer)
			if n > 0 {
				pieces <- piece{time.Now().Add(by), append([]byte(nil), buffer[:n]...)}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() { _ = in.Close() }()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := in.Write(p.data); err != nil {
				break
			}
		}
		_ = body.Close()
		for range pieces { //nolint:revive // whoever reads the body must get to its end
		}
	}()
	return out
}
