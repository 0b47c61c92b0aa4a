// Package front plays the names of etcd Services where there is no DNS: it forwards TLS connections on loopback by the server name the client asks for and never
// terminates TLS, so certificates are verified end to end as on a real network.
package front

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const dialTimeout = 5 * time.Second

// Router owns one port for the whole environment, routed by SNI, and one port per cluster for clients that send no SNI.
type Router struct {
	table    table
	listener net.Listener

	mu       sync.Mutex
	closed   bool
	clusters map[clusterKey]net.Listener
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

// Start listens on a free loopback port.
func Start() (*Router, error) {
	l, err := listen()
	if err != nil {
		return nil, err
	}
	r := &Router{listener: l, clusters: map[clusterKey]net.Listener{}, conns: map[net.Conn]struct{}{}}
	r.wg.Go(func() { r.accept(l, r.routeByName) })
	return r, nil
}

func listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the Service front: %w", err)
	}
	return l, nil
}

// Addr is the address for clients that send the Service's or member's host name as SNI.
func (r *Router) Addr() string { return r.listener.Addr().String() }

// ClusterAddr is an address that reaches the ready members of one cluster whatever name the client sends. It survives the cluster.
func (r *Router) ClusterAddr(namespace, cluster string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := clusterKey{namespace, cluster}
	if l, ok := r.clusters[key]; ok {
		return l.Addr().String()
	}
	l, err := listen()
	if err != nil || r.closed {
		return "127.0.0.1:1" // refuses, as a Service without endpoints does
	}
	r.clusters[key] = l
	r.wg.Go(func() {
		r.accept(l, func(c net.Conn) (net.Conn, string, error) {
			addr, err := r.table.anyReady(key)
			return c, addr, err
		})
	})
	return l.Addr().String()
}

// DialContext connects to the endpoint behind host (a Service or member name, without port), for clients inside this process.
func (r *Router) DialContext(ctx context.Context, host string) (net.Conn, error) {
	addr, err := r.table.lookup(host)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", addr)
}

// Stop closes all ports and connections and waits for the copying to end.
func (r *Router) Stop() {
	r.mu.Lock()
	r.closed = true
	_ = r.listener.Close()
	for _, l := range r.clusters {
		_ = l.Close()
	}
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

type route func(net.Conn) (client net.Conn, backend string, err error)

func (r *Router) accept(l net.Listener, to route) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !r.track(c) {
			return
		}
		r.wg.Go(func() {
			defer r.untrack(c)
			r.serve(c, to)
		})
	}
}

func (r *Router) routeByName(c net.Conn) (net.Conn, string, error) {
	host, replayed, err := peekServerName(c)
	if err != nil {
		return c, "", err
	}
	addr, err := r.table.lookup(host)
	return replayed, addr, err
}

// serve closes the connection without a word where nobody stands behind the name: that is as near to "connection refused" as an accepted connection gets.
func (r *Router) serve(c net.Conn, to route) {
	client, addr, err := to(c)
	if err != nil {
		return
	}
	backend, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil || !r.track(backend) {
		return
	}
	defer r.untrack(backend)
	done := make(chan struct{}, 2)
	pipe := func(dst io.Writer, src io.Reader) {
		_, _ = io.Copy(dst, src)
		done <- struct{}{}
	}
	go pipe(backend, client)
	go pipe(c, backend)
	<-done
	_ = c.Close()
	_ = backend.Close()
	<-done
}

func (r *Router) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *Router) untrack(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}
