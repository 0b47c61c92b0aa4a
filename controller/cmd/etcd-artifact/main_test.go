package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// snapshot writes a database with etcd's buckets and one key, and etcd's sha256 behind it.
func snapshot(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		return keys.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x05_\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("\n\x06/a/b/c*\x01v"))
	}))
	require.NoError(t, db.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(b)
	require.NoError(t, os.WriteFile(path, append(b, sum[:]...), 0o600))
	return path
}

func TestInspectPrintsFacts(t *testing.T) {
	var out bytes.Buffer
	path := snapshot(t)
	require.NoError(t, run(t.Context(), []string{"inspect", path}, &out))
	var got result
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.True(t, got.Trailed)
	require.Equal(t, int64(5), got.Revision)
	require.Equal(t, int64(1), got.Keys.Keys)
	require.Equal(t, int64(1), got.Prefixes["/a/b"].Keys)
	require.NoError(t, run(t.Context(), []string{"inspect", "--checksum", got.Checksum, path}, &out))
}

func TestInspectRefuses(t *testing.T) {
	var out bytes.Buffer
	path := snapshot(t)
	require.ErrorContains(t, run(t.Context(), []string{"inspect", "--checksum", "sha256:00", path}, &out), "sha256:00")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[100]++
	require.NoError(t, os.WriteFile(path, b, 0o600))
	require.ErrorContains(t, run(t.Context(), []string{"inspect", path}, &out), "is damaged")
	for _, args := range [][]string{nil, {"inspect"}, {"prove", path}, {"inspect", "--nonsense", path}, {"inspect", path, path}} {
		require.ErrorContains(t, run(t.Context(), args, &out), "usage:")
	}
	require.Zero(t, out.Len())
}
