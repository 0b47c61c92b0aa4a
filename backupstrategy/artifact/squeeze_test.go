package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// A squeezed database has the entries that bbolt's own Compact gives, and bbolt's Check finds nothing.
func TestSqueezeRandomDatabases(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			from := filepath.Join(t.TempDir(), "from.db")
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same each time
			makeRandom(t, random, from)
			requireSqueezed(t, from)
		})
	}
}

func TestSqueezeAnEmptyDatabase(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from.db")
	db, err := bbolt.Open(from, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	requireSqueezed(t, from)
}

// A database of many buffers is read ahead of where it is written.
func TestSqueezeADatabaseOfManyBuffers(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from.db")
	db := openBolt(t, from, false)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("key"))
		require.NoError(t, err)
		for i := range 8000 {
			require.NoError(t, b.Put(fmt.Appendf(nil, "key-%05d", i), bytes.Repeat([]byte{byte(i)}, 500+i%9000)))
		}
		return nil
	}))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for i := range 8000 {
			if i/40%3 == 0 {
				require.NoError(t, tx.Bucket([]byte("key")).Delete(fmt.Appendf(nil, "key-%05d", i)))
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
	requireSqueezed(t, from)
}

func requireSqueezed(t *testing.T, from string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "to.db")
	require.NoError(t, os.WriteFile(to, readAll(t, from), 0o600))
	sum := newSummer()
	require.NoError(t, squeeze(t.Context(), to, sum))
	sums, err := HashFile(t.Context(), to)
	require.NoError(t, err)
	require.Equal(t, sums, sum.sums())
	compacted := filepath.Join(t.TempDir(), "compacted.db")
	source, target := openBolt(t, from, true), openBolt(t, compacted, false)
	require.NoError(t, bbolt.Compact(target, source, 1<<20))
	want := contents(t, target)
	require.Equal(t, want, contents(t, source))
	inUse := int64(0)
	require.NoError(t, source.View(func(tx *bbolt.Tx) error {
		inUse = tx.Size() - int64(source.Stats().FreePageN+source.Stats().PendingPageN)*int64(source.Info().PageSize)
		return nil
	}))
	copied := openBolt(t, to, true)
	require.Equal(t, want, contents(t, copied))
	require.NoError(t, copied.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			require.NoError(t, err)
		}
		return nil
	}))
	require.LessOrEqual(t, sums.Size, inUse, "no free page is left, and no free list")
	// It must be as good to write to.
	require.NoError(t, copied.Close())
	copied = openBolt(t, to, false)
	require.NoError(t, copied.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("written later"))
		require.NoError(t, err)
		return b.Put([]byte("k"), bytes.Repeat([]byte("v"), 3*pageSize))
	}))
	require.NoError(t, copied.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			require.NoError(t, err)
		}
		return nil
	}))
}

func openBolt(t *testing.T, path string, readOnly bool) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: readOnly, PreLoadFreelist: true, NoSync: true, NoGrowSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// contents is a sum over all buckets, entries and sequences.
func contents(t *testing.T, db *bbolt.DB) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return addBucket(sum, name, b) })
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func addBucket(sum hash.Hash, name []byte, b *bbolt.Bucket) error {
	_, _ = fmt.Fprintf(sum, "bucket %q %d\n", name, b.Sequence())
	err := b.ForEach(func(k, v []byte) error {
		if v == nil {
			return addBucket(sum, k, b.Bucket(k))
		}
		_, err := fmt.Fprintf(sum, "%q=%q\n", k, v)
		return err
	})
	_, _ = fmt.Fprintln(sum, "end")
	return err
}

// makeRandom writes and deletes in several transactions, so that pages in use and free ones alternate.
func makeRandom(t *testing.T, random *rand.Rand, path string) {
	t.Helper()
	options := &bbolt.Options{NoFreelistSync: random.IntN(2) == 0, NoSync: true, NoGrowSync: true, PageSize: []int{0, 1024, 16384}[random.IntN(3)]}
	db, err := bbolt.Open(path, 0o600, options)
	require.NoError(t, err)
	for range 1 + random.IntN(8) {
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			for range random.IntN(5) {
				b, err := tx.CreateBucketIfNotExists(fmt.Appendf(nil, "bucket-%d", random.IntN(6)))
				require.NoError(t, err)
				change(t, random, b, 0)
			}
			return nil
		}))
	}
	require.NoError(t, db.Close())
}

func change(t *testing.T, random *rand.Rand, b *bbolt.Bucket, depth int) {
	t.Helper()
	require.NoError(t, b.SetSequence(random.Uint64()))
	entries := []int{0, 3, 100, 600}[random.IntN(4)]
	for range entries {
		k := fmt.Appendf(nil, "key-%d", random.IntN(1000))
		if random.IntN(3) == 0 {
			require.NoError(t, b.Delete(k))
			continue
		}
		size := random.IntN(200)
		if random.IntN(40) == 0 {
			size = random.IntN(60_000)
		}
		require.NoError(t, b.Put(k, bytes.Repeat([]byte{byte(random.IntN(256))}, size)))
	}
	if depth < 3 && random.IntN(2) == 0 {
		inner, err := b.CreateBucketIfNotExists(fmt.Appendf(nil, "inner-%d", random.IntN(3)))
		require.NoError(t, err)
		change(t, random, inner, depth+1)
	}
}

func TestSqueezeRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "squeezed.db")
	makeRandom(t, rand.New(rand.NewPCG(3, 1)), path) //nolint:gosec // the same each time
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, squeeze(ctx, path, io.Discard), context.Canceled)
	})
	t.Run("no file", func(t *testing.T) {
		require.ErrorIs(t, squeeze(t.Context(), path+"-none", io.Discard), os.ErrNotExist)
	})
	t.Run("truncated", func(t *testing.T) {
		require.NoError(t, os.Truncate(path, 8192))
		require.ErrorContains(t, squeeze(t.Context(), path, io.Discard), "truncated")
	})
}

// Damage that Inspect would have found ends with an error, never with a panic or a loop.
func TestSqueezeOfDamagedDatabasesEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "squeezed.db")
	random := rand.New(rand.NewPCG(9, 1)) //nolint:gosec // the same each time
	makeRandom(t, random, path)
	good := readAll(t, path)
	for range 300 {
		bad := bytes.Clone(good)
		for range 1 + random.IntN(4) {
			bad[random.IntN(len(bad)/pageSize)*pageSize+random.IntN(64)] = byte(random.IntN(256))
		}
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_ = squeeze(t.Context(), path, io.Discard)
	}
}

// Whatever the order of places, reading ahead gives what the file has, and the end of the file as such.
func TestReadAhead(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 1)) //nolint:gosec // the same each time
	content := make([]byte, 40_000)
	for i := range content {
		content[i] = byte(random.IntN(256))
	}
	r := &readAhead{file: bytes.NewReader(content), size: int64(len(content)), buffer: make([]byte, 0, 8192)}
	at := 0
	for range 5000 {
		switch random.IntN(8) {
		case 0:
			at = random.IntN(len(content) + 100)
		case 1:
			at = max(0, at-random.IntN(3000))
		}
		b := make([]byte, random.IntN(10_000))
		n, err := r.ReadAt(b, int64(at))
		want := content[min(at, len(content)):min(at+len(b), len(content))]
		require.Equal(t, want, b[:n], "at %d", at)
		require.Equal(t, n < len(b), err != nil)
		at += n
	}
}
