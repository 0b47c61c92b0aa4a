package front

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const helloTimeout = 10 * time.Second

var errPeeked = errors.New("server name seen")

// peekServerName reads the ClientHello with the standard library's own parser and returns a connection that replays the bytes read.
func peekServerName(c net.Conn) (string, net.Conn, error) {
	var name string
	var seen bytes.Buffer
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	err := tls.Server(readOnly{io.TeeReader(c, &seen), c}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name = hello.ServerName
			return nil, errPeeked
		},
	}).Handshake()
	_ = c.SetReadDeadline(time.Time{})
	if !errors.Is(err, errPeeked) {
		return "", nil, fmt.Errorf("read the ClientHello: %w", err)
	}
	return name, replay{io.MultiReader(&seen, c), c}, nil
}

// readOnly swallows the alert that the parser wants to send.
type readOnly struct {
	io.Reader
	net.Conn
}

func (r readOnly) Read(p []byte) (int, error)  { return r.Reader.Read(p) }
func (r readOnly) Write(p []byte) (int, error) { return len(p), nil }

type replay struct {
	io.Reader
	net.Conn
}

func (r replay) Read(p []byte) (int, error) { return r.Reader.Read(p) }
