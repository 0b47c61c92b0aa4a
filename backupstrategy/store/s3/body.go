package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
)

var errStalled = errors.New("the download stalled")

// body is an object's content on its way. A peer that keeps the connection open and sends nothing would hold the reader for ever, so silence breaks it off.
type body struct {
	store  *Store
	key    string
	at     int64 // offset in the object of the next byte
	inner  io.ReadCloser
	ctx    context.Context // the caller's
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

//nolint:revive // the context belongs to the stream, and comes last for that reason
func newBody(s *Store, key string, offset int64, inner io.ReadCloser, ctx context.Context, cancel context.CancelCauseFunc) *body {
	b := &body{store: s, key: key, at: offset, inner: inner, ctx: ctx, cancel: cancel}
	b.timer = time.AfterFunc(s.config.Stall, func() { cancel(errStalled) })
	b.timer.Stop()
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.store.config.Stall)
	n, err := b.inner.Read(p)
	stalled := !b.timer.Stop()
	b.at += int64(n)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	what := b.store.what(http.MethodGet, b.key)
	switch {
	case b.ctx.Err() != nil:
		return n, fmt.Errorf("%s: at byte %d: %w", what, b.at, b.ctx.Err())
	case stalled:
		return n, store.Failed(what, store.ErrUnavailable, fmt.Sprintf("no byte came for %s after byte %d", b.store.config.Stall, b.at))
	}
	return n, store.Failed(what, store.ErrUnavailable, fmt.Sprintf("the connection broke after byte %d", b.at))
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.inner.Close()
}
