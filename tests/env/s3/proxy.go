package s3

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Proxy is a double of a misbehaving S3 service: it stands before a real server and delays, refuses or cuts what passes. Without faults it only forwards.
type Proxy struct {
	Endpoint string // http://127.0.0.1:port

	server *http.Server
	mu     sync.Mutex
	faults []*Fault
	seen   []string
	noList bool
}

// Fault is one misbehaviour. The first fault that matches a request applies, alone.
type Fault struct {
	Match    func(*http.Request) bool // nil matches every request
	Delay    time.Duration            // before anything else
	Status   int                      // answer with this status and Code instead of forwarding; 0 forwards
	Code     string                   // S3 error code of the answer, such as SlowDown
	Break    bool                     // break the connection instead of forwarding or answering
	CutAfter int64                    // break the connection after so many bytes of the answer's body; 0 leaves it whole
	Times    int                      // how often it applies; 0 means until removed
}

// Object matches requests of a method for one key of any bucket.
func Object(method, key string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		_, k, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		return r.Method == method && k == key
	}
}

// StartProxy listens on a free loopback port and forwards to the endpoint of a server.
func StartProxy(endpoint string) (*Proxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("S3 proxy: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("S3 proxy: %w", err)
	}
	p := &Proxy{Endpoint: "http://" + l.Addr().String()}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// The signature covers the host that the client dialled.
			r.Out.Host = r.In.Host
		},
		ModifyResponse: p.modify,
		// A fault aborts answers on purpose; the reports of that help nobody.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.server = &http.Server{Handler: p.handler(forward), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// Stop closes the listener and every connection.
func (p *Proxy) Stop() { _ = p.server.Close() }

// Inject adds a fault after those that are there.
func (p *Proxy) Inject(f Fault) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := &f
	p.faults = append(p.faults, fault)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drop(fault)
	}
}

// ForbidListBucket makes the server behave to everyone as S3 does to credentials without s3:ListBucket: listing is refused, and an absent key is 403 instead of 404.
func (p *Proxy) ForbidListBucket(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noList = on
}

// Requests gives "METHOD /path" of all that was asked so far.
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

func (p *Proxy) handler(forward http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, noList := p.take(r)
		select {
		case <-r.Context().Done():
			return
		case <-time.After(f.Delay):
		}
		switch {
		case f.Break:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			refuse(w, r, f.Status, f.Code)
		case noList && isList(r):
			refuse(w, r, http.StatusForbidden, "AccessDenied")
		case f.CutAfter > 0:
			forward.ServeHTTP(&cutter{ResponseWriter: w, left: f.CutAfter}, r)
		default:
			forward.ServeHTTP(w, r)
		}
	}
}

// take notes the request and picks its fault; the zero fault does nothing.
func (p *Proxy) take(r *http.Request) (f Fault, noList bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Method+" "+r.URL.Path)
	for _, candidate := range p.faults {
		if candidate.Match != nil && !candidate.Match(r) {
			continue
		}
		if candidate.Times > 0 {
			if candidate.Times--; candidate.Times == 0 {
				p.drop(candidate)
			}
		}
		return *candidate, p.noList
	}
	return Fault{}, p.noList
}

func (p *Proxy) drop(fault *Fault) {
	for i, f := range p.faults {
		if f == fault {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			return
		}
	}
}

func (p *Proxy) modify(resp *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noList && resp.StatusCode == http.StatusNotFound {
		_ = resp.Body.Close()
		body := errorBody("AccessDenied")
		if resp.Request.Method == http.MethodHead {
			body = ""
		}
		resp.StatusCode, resp.Status = http.StatusForbidden, "403 Forbidden"
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	return nil
}

func isList(r *http.Request) bool {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return r.Method == http.MethodGet && bucket != "" && key == ""
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, errorBody(code))
	}
}

func errorBody(code string) string {
	return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code + "</Code><Message>refused by the S3 double</Message></Error>"
}

// cutter breaks the connection in the middle of a body, so that the client sees an unexpected end and not a short object.
type cutter struct {
	http.ResponseWriter
	left int64
}

// Write implements io.Writer.
func (c *cutter) Write(b []byte) (int, error) {
	if int64(len(b)) < c.left {
		c.left -= int64(len(b))
		return c.ResponseWriter.Write(b)
	}
	_, _ = c.ResponseWriter.Write(b[:c.left])
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}
