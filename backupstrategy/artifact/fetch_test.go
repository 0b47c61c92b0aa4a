package artifact

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/storetest"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const key = "ns/etcd/snap.db"

func put(t *testing.T, m *storetest.Memory, content []byte) {
	t.Helper()
	require.NoError(t, m.Put(t.Context(), key, storetest.Content(content)))
}

func recordOf(b []byte) Record {
	return Record{SizeBytes: int64(len(b)), Checksum: fmt.Sprintf("sha256:%x", sha256.Sum256(b))}
}

func TestSumsInOnePass(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 33, 63, 64, 65, 1000, 5000} {
		content := storetest.Noise(int64(size))
		s := newSummer()
		for rest := content; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(70))
			_, _ = s.Write(rest[:n])
			rest = rest[n:]
		}
		got := s.sums()
		cut := max(size-trailerSize, 0)
		require.Equal(t, int64(size), got.Size)
		require.Equal(t, sha256.Sum256(content), got.Whole, "size %d", size)
		require.Equal(t, sha256.Sum256(content[:cut]), got.Database, "size %d", size)
		require.False(t, got.Trailed())
	}
}

func TestFetch(t *testing.T) {
	content := readAll(t, fixture(t, v36, "plain", plain))
	m := storetest.NewMemory()
	put(t, m, content)
	for name, r := range map[string]Record{"with a record": recordOf(content), "without a record": {}} {
		f, err := Fetch(t.Context(), m, key, r, workspace(t))
		require.NoError(t, err, name)
		require.Equal(t, content, readAll(t, f.Path))
		require.True(t, f.Sums.Trailed())
		require.Equal(t, recordOf(content).Checksum, f.Sums.Checksum())
		require.Equal(t, int64(len(content)-32), f.Sums.DatabaseSize())
	}
}

// Each way in which an artifact is bad, the reason, and the byte or number that the message names.
func TestBadArtifactsAreRefused(t *testing.T) {
	good := readAll(t, fixture(t, v36, "plain", plain))
	size := len(good)
	flipped := bytes.Clone(good)
	value := bytes.LastIndex(flipped, []byte("again"))
	require.Positive(t, value)
	flipped[value] ^= 0x10
	cut := func(n int) []byte { return good[:size-n] }
	cases := []struct {
		name    string
		content []byte
		record  Record
		reason  string
		says    string
	}{
		{"missing", nil, recordOf(good), backupsv1alpha1.ReasonObjectNotFound, key},
		{"empty", []byte{}, Record{}, backupsv1alpha1.ReasonArtifactTruncated, "empty"},
		{"cut by 1", cut(1), recordOf(good), backupsv1alpha1.ReasonArtifactTruncated, fmt.Sprintf("truncated at byte %d of %d", size-1, size)},
		{"cut by 512", cut(512), recordOf(good), backupsv1alpha1.ReasonArtifactTruncated, fmt.Sprintf("truncated at byte %d of %d", size-512, size)},
		{"cut by 8192", cut(8192), recordOf(good), backupsv1alpha1.ReasonArtifactTruncated, fmt.Sprintf("truncated at byte %d of %d", size-8192, size)},
		{"cut by 1, nothing recorded", cut(1), Record{}, backupsv1alpha1.ReasonArtifactTruncated, fmt.Sprintf("ends at byte %d", size-1)},
		{"cut by 512, nothing recorded", cut(512), Record{}, backupsv1alpha1.ReasonArtifactHashMismatch, fmt.Sprintf("at byte %d", size-512-32)},
		{"cut by 8192, nothing recorded", cut(8192), Record{}, backupsv1alpha1.ReasonArtifactHashMismatch, fmt.Sprintf("at byte %d", size-8192-32)},
		{"cut by 512, recorded so", cut(512), recordOf(cut(512)), backupsv1alpha1.ReasonArtifactHashMismatch, fmt.Sprintf("at byte %d", size-512-32)},
		{"one byte more", append(bytes.Clone(good), 0), recordOf(good), backupsv1alpha1.ReasonArtifactSizeMismatch, "1 more than the record says"},
		{"a bit flipped in a value", flipped, recordOf(good), backupsv1alpha1.ReasonArtifactChecksumMismatch, recordOf(good).Checksum[7:]},
		{"a bit flipped in a value, recorded so", flipped, recordOf(flipped), backupsv1alpha1.ReasonArtifactHashMismatch, fmt.Sprintf("sha256 at byte %d", size-32)},
		{"wrong checksum recorded", good, Record{Checksum: recordOf(flipped).Checksum}, backupsv1alpha1.ReasonArtifactChecksumMismatch, recordOf(flipped).Checksum[7:]},
		{"no checksum recorded but text", good, Record{Checksum: "md5:abc"}, backupsv1alpha1.ReasonArtifactInvalid, "md5:abc"},
		{"a database without etcd's sha256", cut(32), Record{}, backupsv1alpha1.ReasonArtifactHashMismatch, fmt.Sprintf("ends at byte %d without", size-32)},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m := storetest.NewMemory()
			if tc.content != nil {
				put(t, m, tc.content)
			}
			_, err := Fetch(t.Context(), m, key, tc.record, workspace(t))
			require.Error(t, err)
			require.Equal(t, tc.reason, fault.ReasonOf(err, ""), err)
			require.Equal(t, fault.Terminal, fault.ClassOf(err))
			require.ErrorContains(t, err, tc.says)
		})
	}
	m := storetest.NewMemory()
	put(t, m, cut(32))
	f, err := Fetch(t.Context(), m, key, Record{AllowBare: true}, workspace(t))
	require.NoError(t, err, "a bare database is taken where the caller says so")
	_, err = f.Inspect(t.Context(), Options{})
	require.NoError(t, err)
}

func TestBrokenDownloadsAreTakenUpAgain(t *testing.T) {
	content := readAll(t, fixture(t, v36, "plain", plain))
	m := storetest.NewMemory()
	put(t, m, content)
	m.BreakAfter = int64(len(content)/5) + 1
	f, err := Fetch(t.Context(), m, key, recordOf(content), workspace(t))
	require.NoError(t, err)
	require.Equal(t, content, readAll(t, f.Path))

	t.Run("but not for ever", func(t *testing.T) {
		gets := 0
		m.Fail = func(verb, _ string) error {
			if verb != "GET" {
				return nil
			}
			if gets++; gets > 1 {
				return store.Failed(verb, store.ErrUnavailable, "")
			}
			return nil
		}
		_, err := Fetch(t.Context(), m, key, recordOf(content), workspace(t))
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Equal(t, fault.Transient, fault.ClassOf(err), "a later pass may succeed")
		require.Equal(t, 1+maxIdle, gets)
	})
	t.Run("nor on another object", func(t *testing.T) {
		changed := false
		m.Fail = func(verb, _ string) error {
			if verb == "GET" && !changed {
				changed = true
				return nil
			}
			if verb == "GET" {
				m.Fail = nil
				put(t, m, append(bytes.Clone(content), 1))
				return store.Failed(verb, store.ErrUnavailable, "")
			}
			return nil
		}
		_, err := Fetch(t.Context(), m, key, recordOf(content), workspace(t))
		require.ErrorIs(t, err, store.ErrChanged)
	})
}

func TestFetchAsksForScratchFirst(t *testing.T) {
	content := readAll(t, fixture(t, v36, "empty", nothing))
	m := storetest.NewMemory()
	put(t, m, content)
	s, err := NewScratch(t.TempDir(), 1000, 1)
	require.NoError(t, err)
	w, err := s.Open(t.Context(), 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	gets := 0
	m.Fail = func(verb, _ string) error {
		if verb == "GET" {
			gets++
		}
		return nil
	}
	_, err = Fetch(t.Context(), m, key, recordOf(content), w)
	require.Equal(t, backupsv1alpha1.ReasonScratchTooSmall, fault.ReasonOf(err, ""))
	require.ErrorContains(t, err, fmt.Sprint(len(content)))
	require.ErrorContains(t, err, "1000")
	require.Zero(t, gets, "nothing was downloaded")
	_, err = os.Stat(w.Path(snapshotName))
	require.ErrorIs(t, err, os.ErrNotExist)
}
