package artifact

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const pageSize = 4096

func inspectBytes(t testing.TB, b []byte) (Facts, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return Inspect(t.Context(), path, Options{DatabaseBytes: int64(len(b) - len(b)%sectorSize)})
}

// find gives the first page of a kind, with several entries, that is in use.
func find(t *testing.T, b []byte, flags uint16, least int) int {
	t.Helper()
	d, err := walk(t.Context(), bytes.NewReader(b), int64(len(b)-32), func(_, _, _ []byte, _ int64) error { return nil })
	require.NoError(t, err)
	for at := 2 * pageSize; at < len(b)-pageSize; at += pageSize {
		p := headerOf(b[at:at+pageSize], int64(at))
		if d.reached.has(uint64(at/pageSize)) && p.flags == flags && p.count >= least {
			return at
		}
	}
	t.Fatal("no such page")
	return 0
}

// A damage to the structure that every hash of the file agrees with: the byte is named, and nothing panics.
func TestDamagedPagesAreFoundWithTheirByte(t *testing.T) {
	good := readAll(t, fixture(t, v36, "plain", plain))
	le := binary.LittleEndian
	branch, leaf := find(t, good, flagBranch, 3), find(t, good, flagLeaf, 5)
	element := func(page, i int) int { return page + pageHeaderSize + i*elementSize }
	keyOf := func(b []byte, page, i int) int { return element(page, i) + int(le.Uint32(b[element(page, i)+4:])) }
	cases := []struct {
		name  string
		harm  func(b []byte)
		bytes []int // one of them is named; none: any
		says  string
	}{
		{"page number", func(b []byte) { b[leaf]++ }, []int{leaf}, "calls itself page"},
		{"page kind", func(b []byte) { b[leaf+8] = 0x40 }, []int{leaf}, "flags 0x40"},
		{"free list in a tree", func(b []byte) { b[leaf+8] = flagFreelist }, []int{leaf}, "flags 0x10"},
		{"number of entries", func(b []byte) { le.PutUint16(b[leaf+10:], 4000) }, nil, "leaves|entries|reaches"},
		{"overflow", func(b []byte) { le.PutUint32(b[leaf+12:], 0xfffffff0) }, []int{leaf}, "goes on for"},
		{"overflow over the next page", func(b []byte) { le.PutUint32(b[leaf+12:], 3) }, nil, "reached twice"},
		{"position of an entry", func(b []byte) { le.PutUint32(b[element(leaf, 2)+4:], 0x7fffffff) }, []int{element(leaf, 2)}, "reaches to byte"},
		{"length of a value", func(b []byte) { le.PutUint32(b[element(leaf, 2)+12:], 0xffffffff) }, []int{element(leaf, 2)}, "reaches to byte"},
		{"order of keys", func(b []byte) { b[keyOf(b, leaf, 3)+7] = 0 }, []int{keyOf(good, leaf, 3)}, "does not come after"},
		{"key beyond the page's bound", func(b []byte) { b[keyOf(b, leaf, 4)] = 0x70 }, nil, "behind|does not come after|no revision"},
		{"child of a branch", func(b []byte) { le.PutUint64(b[element(branch, 1)+8:], 1<<40) }, nil, "refers to page"},
		{"meta page as a child", func(b []byte) { le.PutUint64(b[element(branch, 1)+8:], 1) }, nil, "refers to page 1"},
		{"same child twice", func(b []byte) { le.PutUint64(b[element(branch, 1)+8:], le.Uint64(b[element(branch, 0)+8:])) }, nil, "reached twice|does not come after|behind"},
		{"a loop", func(b []byte) { le.PutUint64(b[element(branch, 1)+8:], uint64(branch/pageSize)) }, []int{branch}, "reached twice"},
		{"both meta pages", func(b []byte) { b[20]++; b[pageSize+20]++ }, []int{0}, "meta pages"},
		{"revision", func(b []byte) { b[keyOf(b, leaf, 2)+8] = '-' }, []int{keyOf(good, leaf, 2)}, "no revision"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			b := bytes.Clone(good)
			tc.harm(b)
			b = retrail(b)
			require.NotEqual(t, good, b)
			_, err := inspectBytes(t, b)
			require.Error(t, err)
			require.Equal(t, backupsv1alpha1.ReasonArtifactBroken, fault.ReasonOf(err, ""), err)
			require.Regexp(t, "damaged at byte [0-9]+: .*("+tc.says+")", err.Error())
			for _, at := range tc.bytes {
				require.ErrorContains(t, err, fmt.Sprintf("damaged at byte %d:", at))
			}
		})
	}
	t.Run("one meta page is enough", func(t *testing.T) {
		for _, at := range []int{20, pageSize + 20} {
			b := bytes.Clone(good)
			b[at]++
			_, err := inspectBytes(t, retrail(b))
			require.NoError(t, err)
		}
	})
	t.Run("cut at a page", func(t *testing.T) {
		_, err := inspectBytes(t, retrail(good[:len(good)-32-2*pageSize]))
		require.Equal(t, backupsv1alpha1.ReasonArtifactTruncated, fault.ReasonOf(err, ""))
		require.ErrorContains(t, err, fmt.Sprintf("ends at byte %d of %d", len(good)-32-2*pageSize, len(good)-32))
	})
	t.Run("not etcd's", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other.db")
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		_, err = Inspect(t.Context(), path, Options{})
		require.ErrorContains(t, err, "not etcd's")
		_, err = inspectBytes(t, make([]byte, 20*pageSize))
		require.ErrorContains(t, err, "meta pages")
		_, err = inspectBytes(t, []byte("short"))
		require.ErrorContains(t, err, "meta pages")
	})
}

// Whatever is damaged, the walk ends with an error or accepts a file that bbolt accepts too. bbolt would end this process if it did not: it panics in a
// goroutine of its own.
func TestRandomDamageNeverGetsPastTheWalk(t *testing.T) {
	good := readAll(t, fixture(t, v36, "plain", plain))
	rounds := 1500
	if testing.Short() {
		rounds = 150
	}
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "s.db")
	accepted := 0
	for round := range rounds {
		b := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			// Half of the damage goes to headers and tables of entries, which are at the beginning of pages.
			at := random.IntN(len(b) - 32)
			if random.IntN(2) == 0 {
				at = at/pageSize*pageSize + random.IntN(120)
			}
			b[at] ^= byte(1 << random.IntN(8))
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
		if _, err := Inspect(t.Context(), path, Options{}); err != nil {
			require.NotEmpty(t, fault.ReasonOf(err, ""), "round %d: %v", round, err)
			continue
		}
		accepted++
		requireSound(t, path)
	}
	require.Greater(t, accepted, rounds/20, "damage to values alone is no damage to the structure")
	require.Less(t, accepted, rounds*19/20)
}

// requireSound is bbolt's own opinion.
func requireSound(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return nil
	}))
}

// A database with a stored free list, nested levels and values of many pages, as bbolt itself writes it.
func TestWalkReadsWhatBboltWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 1024, NoSync: true})
	require.NoError(t, err)
	want := map[string][]byte{}
	for round := range 20 {
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucketLease))
			if err != nil {
				return err
			}
			if _, err := tx.CreateBucketIfNotExists([]byte(bucketKey)); err != nil {
				return err
			}
			for i := range 200 {
				k, v := fmt.Appendf(nil, "k-%d", (round*131+i)%900), bytes.Repeat([]byte{byte(i)}, i*i)
				if i == 7 {
					v = bytes.Repeat([]byte("big"), 500_000)
				}
				want[string(k)] = v
				if err := b.Put(k, v); err != nil {
					return err
				}
				if gone := fmt.Appendf(nil, "k-%d", (round*57+i*3)%900); i%5 == 0 {
					delete(want, string(gone))
					if err := b.Delete(gone); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	require.NoError(t, db.Close())
	f, size := openDB(t, path)
	got := map[string][]byte{}
	d, err := walk(t.Context(), f, size, func(bucket, key, value []byte, _ int64) error {
		if key != nil {
			require.Equal(t, bucketLease, string(bucket))
			got[string(key)] = bytes.Clone(value)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NotEqual(t, noFreelist, d.meta.freelist)

	lost := readAll(t, path)
	at := int(d.meta.freelist) * 1024
	require.Positive(t, binary.LittleEndian.Uint16(lost[at+10:]))
	lost[at+10]--
	_, err = inspectBytes(t, lost)
	require.ErrorContains(t, err, "neither in use nor free")
}
