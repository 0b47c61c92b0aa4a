// Package storetest states what every adapter of the object store port does, and offers a store in memory for tests that need no server.
package storetest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// Run holds an adapter to the contract. The bucket must be empty of keys below "storetest/". Large is a size that the adapter splits into several parts.
func Run(t *testing.T, s store.Store, large int64) {
	t.Run("round trip", func(t *testing.T) { roundTrip(t, s, large) })
	t.Run("absent", func(t *testing.T) { absent(t, s) })
	t.Run("ranges", func(t *testing.T) { ranges(t, s) })
	t.Run("another version", func(t *testing.T) { anotherVersion(t, s) })
	t.Run("keys are taken literally", func(t *testing.T) { literalKeys(t, s) })
	t.Run("a body that cannot be read stores nothing", func(t *testing.T) { brokenBody(t, s, large) })
	t.Run("a cancelled context", func(t *testing.T) { cancelled(t, s) })
}

// Noise is reproducible content that nothing compresses.
func Noise(size int64) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size % 256)}).Read(b) //nolint:gosec // a seed
	return b
}

// Content is bytes as Put takes them.
func Content(b []byte) store.Content {
	return store.Content{Body: bytes.NewReader(b), Size: int64(len(b))}
}

func roundTrip(t *testing.T, s store.Store, large int64) {
	ctx := t.Context()
	for _, size := range []int64{0, 1, 100_000, large - 1, large, large + 1} {
		want := Noise(size)
		c := Content(want)
		c.Metadata = map[string]string{"owner": "storetest"}
		require.NoError(t, s.Put(ctx, "storetest/round", c), "size %d", size)
		info, err := s.Head(ctx, "storetest/round")
		require.NoError(t, err)
		require.Equal(t, size, info.Size)
		require.Equal(t, "storetest", info.Metadata["owner"])
		require.NotEmpty(t, info.ETag)
		require.False(t, info.Modified.IsZero())
		require.True(t, bytes.Equal(want, read(t, s, "storetest/round", store.Range{})), "size %d", size)
	}
	require.NoError(t, s.Delete(ctx, "storetest/round"))
	_, err := s.Head(ctx, "storetest/round")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func absent(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Head(ctx, "storetest/absent")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorContains(t, err, "storetest/absent")
	require.Equal(t, fault.Terminal, fault.ClassOf(err))
	_, err = s.Get(ctx, "storetest/absent", store.Range{})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, s.Delete(ctx, "storetest/absent"), "deleting is done when nothing is there")
}

func ranges(t *testing.T, s store.Store) {
	content := Noise(10_000)
	require.NoError(t, s.Put(t.Context(), "storetest/range", Content(content)))
	for _, offset := range []int64{0, 1, 5_000, 9_999} {
		require.Equal(t, content[offset:], read(t, s, "storetest/range", store.Range{Offset: offset}))
	}
	_, err := s.Get(t.Context(), "storetest/range", store.Range{Offset: 10_000})
	require.ErrorIs(t, err, store.ErrChanged, "nobody asks for bytes behind the end unless the object has become shorter")
}

func anotherVersion(t *testing.T, s store.Store) {
	ctx := t.Context()
	require.NoError(t, s.Put(ctx, "storetest/version", Content([]byte("first"))))
	first, err := s.Head(ctx, "storetest/version")
	require.NoError(t, err)
	require.Equal(t, []byte("st"), read(t, s, "storetest/version", store.Range{Offset: 3, ETag: first.ETag}))
	require.NoError(t, s.Put(ctx, "storetest/version", Content([]byte("other"))))
	_, err = s.Get(ctx, "storetest/version", store.Range{Offset: 3, ETag: first.ETag})
	require.ErrorIs(t, err, store.ErrChanged)
}

func literalKeys(t *testing.T, s store.Store) {
	for _, key := range []string{"storetest/a+b c.db", "storetest/ü%2F.db", "storetest/x=1&y=2?z#.db"} {
		require.NoError(t, s.Put(t.Context(), key, Content([]byte(key))), key)
		require.Equal(t, key, string(read(t, s, key, store.Range{})))
		require.NoError(t, s.Delete(t.Context(), key))
	}
}

func brokenBody(t *testing.T, s store.Store, large int64) {
	for _, size := range []int64{100, 3 * large} {
		err := s.Put(t.Context(), "storetest/broken", store.Content{Body: broken{}, Size: size})
		require.ErrorIs(t, err, errBroken)
		_, err = s.Head(t.Context(), "storetest/broken")
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

func cancelled(t *testing.T, s store.Store) {
	require.NoError(t, s.Put(t.Context(), "storetest/cancel", Content(Noise(100))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Head(ctx, "storetest/cancel")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Put(ctx, "storetest/cancel", Content(nil)), context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, "storetest/cancel"), context.Canceled)
}

func read(t *testing.T, s store.Reader, key string, r store.Range) []byte {
	t.Helper()
	body, err := s.Get(t.Context(), key, r)
	require.NoError(t, err)
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	return content
}

type broken struct{}

var errBroken = io.ErrNoProgress

// ReadAt implements io.ReaderAt.
func (broken) ReadAt([]byte, int64) (int, error) { return 0, errBroken }
