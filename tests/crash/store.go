package crash

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// Store stands between everybody and the S3 server. Only the controller writes prepared copies, so its writes are told by their keys.
type Store struct {
	URL    string
	server *http.Server
}

// NewStore forwards to an S3 endpoint. It listens on loopback until Close.
func NewStore(endpoint string, j *Journal) (*Store, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the signature covers the host that the client dialled
		},
		ModifyResponse: func(r *http.Response) error {
			if !writesCopy(r.Request) || r.StatusCode >= 300 {
				return nil
			}
			return j.after(copyWrite(r.Request))
		},
		ErrorHandler: fail,
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	s := &Store{}
	s.server, s.URL, err = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if writesCopy(r) && j.before(copyWrite(r)) != nil {
			fail(w, r, errDisturbed)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	return s, err
}

// Close ends the proxy.
func (s *Store) Close() { _ = s.server.Close() }

func writesCopy(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && strings.Contains(r.URL.Path, ".prepared-")
}

func copyWrite(r *http.Request) string { return r.Method + " s3 prepared copy" }
