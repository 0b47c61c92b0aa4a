package node

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// peerNetwork stands for DNS and reverse DNS between members. etcd resolves host names in peer URLs with the machine's own DNS, which does not know them; but in a
// URL with the scheme unixs the host is the path of a socket, and TLS still verifies it as a name. So members announce unixs://<real host>:2380, and in the working
// folder of each member lies a socket for each peer, which forwards to the peer's port. The forwarder knows the caller by the folder: it checks what etcd cannot see on
// loopback, the caller's reverse name, and refuses with the TLS alert that a peer would send.
type peerNetwork struct {
	node *Node
	dir  string // short, as the path of a socket is limited to about 100 bytes

	mu    sync.Mutex
	next  int
	links map[link]net.Listener
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

type link struct {
	caller types.UID
	target string
}

// badCertificate is the fatal TLS alert 42 as a record.
var badCertificate = []byte{0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x2a}

var (
	toLoopback   = strings.NewReplacer("https://", "unixs://", "http://", "unix://")
	fromLoopback = strings.NewReplacer("unixs://", "https://", "unix://", "http://")
)

// ToLoopback translates peer URLs as objects hold them to those that members announce to each other.
func ToLoopback(urls string) string { return toLoopback.Replace(urls) }

// FromLoopback is the way back.
func FromLoopback(urls string) string { return fromLoopback.Replace(urls) }

func newPeerNetwork(n *Node) (*peerNetwork, error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return nil, fmt.Errorf("sockets for peers: %w", err)
	}
	return &peerNetwork{node: n, dir: dir, links: map[link]net.Listener{}, conns: map[net.Conn]struct{}{}}, nil
}

func (p *peerNetwork) stop() {
	p.mu.Lock()
	for _, l := range p.links {
		_ = l.Close()
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	_ = os.RemoveAll(p.dir)
}

// join makes a member and its peers reachable for each other.
func (p *peerNetwork) join(r *runner, peers []*runner) error {
	for _, other := range peers {
		if err := p.connect(r, other); err != nil {
			return err
		}
		if err := p.connect(other, r); err != nil {
			return err
		}
	}
	return nil
}

func (p *peerNetwork) connect(caller, target *runner) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := link{caller.pod.UID, target.key.Name}
	if _, ok := p.links[key]; ok {
		return nil
	}
	p.next++
	path := filepath.Join(p.dir, strconv.Itoa(p.next))
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("socket from %s to %s: %w", caller.key, target.key, err)
	}
	if err := os.MkdirAll(caller.folder(), 0o700); err != nil {
		return err
	}
	host := fmt.Sprintf("%s.%s.%s.svc:2380", target.key.Name, target.pod.Spec.Subdomain, target.key.Namespace)
	if err := os.Symlink(path, filepath.Join(caller.folder(), host)); err != nil {
		return err
	}
	p.links[key] = l
	to := target.key
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.forward(c, caller, to) })
		}
	})
	return nil
}

// leave takes the sockets of a Pod that has ended away.
func (p *peerNetwork) leave(caller types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, l := range p.links {
		if key.caller == caller {
			_ = l.Close()
			delete(p.links, key)
		}
	}
}

func (p *peerNetwork) keep(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.conns[c] = struct{}{}
	} else {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *peerNetwork) forward(c net.Conn, caller *runner, target types.NamespacedName) {
	p.keep(c, true)
	defer p.keep(c, false)
	if cut := p.node.opts.Hooks.Partition; cut != nil && cut(caller.key.Name, target.Name) {
		return
	}
	addr, ok := p.node.peerAddress(target)
	if !ok {
		return
	}
	in := bufio.NewReader(c)
	if !p.node.opts.TrustAnyName && !caller.named() {
		_, _ = in.Peek(1) // the alert answers the ClientHello
		_, _ = c.Write(badCertificate)
		return
	}
	backend, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	p.keep(backend, true)
	defer p.keep(backend, false)
	done := make(chan struct{}, 2)
	pipe := func(dst io.Writer, src io.Reader) {
		_, _ = io.Copy(dst, src)
		done <- struct{}{}
	}
	go pipe(backend, in)
	go pipe(c, backend)
	<-done
	_, _ = c.Close(), backend.Close()
	<-done
}

// named is etcd's check of a peer's client certificate: the reverse name of its address, which Kubernetes gives in the full form, must match a SAN; or a SAN without a
// wildcard must resolve to the address, as the names of the headless Service do.
func (r *runner) named() bool {
	raw, err := os.ReadFile(filepath.Join(r.folder(), "volumes", "tls-peer", current, "tls.crt"))
	if os.IsNotExist(err) {
		return true // peers without TLS
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false
	}
	service := r.pod.Spec.Subdomain
	base := service + "." + r.key.Namespace
	full := r.key.Name + "." + base + ".svc." + r.opts.ClusterDomain
	if cert.VerifyHostname(full) == nil {
		return true
	}
	for _, name := range cert.DNSNames {
		switch name {
		case service, base, base + ".svc", base + ".svc." + r.opts.ClusterDomain, r.key.Name + "." + base + ".svc":
			return true
		}
	}
	return false
}
