// Package ports reserves loopback TCP ports for the local environment.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The range lies below the kernel's ephemeral ports, so that no outgoing connection takes a reserved port while its server is restarted.
const (
	first = 12000
	last  = 32000
)

var (
	mu   sync.Mutex
	held = map[int]*os.File{}
)

// Free reserves a port that nobody listens on. The reservation holds against other processes of the same user until Release or the end of this process,
// so a child may be stopped and started again on its port.
func Free() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	dir := filepath.Join(os.TempDir(), "cozy-etcd-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("reserve a port: %w", err)
	}
	start := rand.IntN(last - first)
	for i := range last - first {
		port := first + (start+i)%(last-first)
		if _, taken := held[port]; taken {
			continue
		}
		if lock := reserve(dir, port); lock != nil {
			held[port] = lock
			return port, nil
		}
	}
	return 0, errors.New("reserve a port: every port from 12000 to 31999 is taken")
}

// Address is Free as a host:port on loopback.
func Address() (string, error) {
	port, err := Free()
	if err != nil {
		return "", err
	}
	return Join(port), nil
}

// Join gives the loopback address of a port.
func Join(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Release gives ports back.
func Release(ports ...int) {
	mu.Lock()
	defer mu.Unlock()
	for _, p := range ports {
		if f, ok := held[p]; ok {
			_ = f.Close()
			delete(held, p)
		}
	}
}

func reserve(dir string, port int) *os.File {
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return nil
	}
	l, err := net.Listen("tcp", Join(port))
	if err != nil {
		_ = f.Close()
		return nil
	}
	_ = l.Close()
	return f
}
