package artifact

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoot(t *testing.T) {
	for key, want := range map[string]string{"/a/b/c": "a", "/a/b": "a", "/a": "", "a/b": "", "": "", "/": "", "//x": "", "/a_b/": "a_b"} {
		require.Equal(t, want, Root([]byte(key)), key)
	}
}

// However many prefixes there are, each root is known, as a control plane's survival is told by it, until there are too many roots as well.
func TestEveryRootIsCounted(t *testing.T) {
	count := func(roots int) Facts {
		r := newReport(t.TempDir())
		for i := range roots {
			for j := range 5 {
				key := fmt.Appendf(nil, "/t%d/r%d/k", i, j)
				require.NoError(t, r.tally.put(key, r.prefixes.number(key), 10))
			}
		}
		for _, key := range []string{"flat", "/x"} {
			require.NoError(t, r.tally.put([]byte(key), r.prefixes.number([]byte(key)), 1))
		}
		f, err := r.finish(nil)
		require.NoError(t, err)
		return f
	}
	f := count(900)
	require.Len(t, f.Prefixes, maxPrefixes)
	require.Len(t, f.Roots, 900)
	for root, keys := range f.Roots {
		require.Equal(t, int64(5), keys, root)
	}
	require.False(t, f.MoreRoots)
	require.Equal(t, int64(900*5+2-maxPrefixes), f.Rest.Keys)

	f = count(3 * maxRoots)
	require.True(t, f.MoreRoots)
	require.GreaterOrEqual(t, len(f.Roots), maxRoots)
	require.LessOrEqual(t, len(f.Roots), maxRoots+maxPrefixes)
}
