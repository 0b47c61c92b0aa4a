package artifact

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/storetest"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// limited makes a workspace of a limit that has a snapshot in it.
func limited(t *testing.T, limit int64, content []byte) (*Workspace, File) {
	t.Helper()
	s, err := NewScratch(t.TempDir(), limit, 1)
	require.NoError(t, err)
	w, err := s.Open(t.Context(), int64(len(content)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	m := storetest.NewMemory()
	put(t, m, content)
	f, err := Fetch(t.Context(), m, key, recordOf(content), w)
	require.NoError(t, err)
	return w, f
}

// The limit is over all that a workspace holds at once: the snapshot and etcdutl's copy and log.
func TestTheLimitIsOverTheWholeWorkspace(t *testing.T) {
	for _, name := range []string{"plain", "loose"} {
		t.Run(name, func(t *testing.T) {
			content := readAll(t, fixture(t, v36, name, map[string]func(context.Context, *server) error{"plain": plain, "loose": loose}[name]))
			size := int64(len(content))
			limit := size + PrepareNeed(size)

			w, f := limited(t, limit-1, content)
			facts, err := Inspect(t.Context(), f.Path, Options{})
			require.NoError(t, err)
			o := PrepareOptions{Workspace: w, Tools: tools(t), Bump: million}
			_, err = Prepare(t.Context(), f, facts, o)
			require.Equal(t, backupsv1alpha1.ReasonScratchTooSmall, fault.ReasonOf(err, ""))
			for _, number := range []int64{PrepareNeed(size), size, limit - 1} {
				require.ErrorContains(t, err, fmt.Sprint(number))
			}
			require.FileExists(t, f.Path, "it was not begun")

			o.Workspace, f = limited(t, limit, content)
			peak := filepath.Join(t.TempDir(), "peak")
			o.Tools = measured(t, o.Workspace.Dir, peak)
			_, err = Prepare(t.Context(), f, facts, o)
			require.NoError(t, err)
			used, err := strconv.ParseInt(strings.TrimSpace(string(readAll(t, peak))), 10, 64)
			require.NoError(t, err)
			require.Greater(t, used, int64(64_000_000), "etcdutl's log counts too")
			require.LessOrEqual(t, used, limit)
		})
	}
}

// measured is an etcdutl that notes, at its end, how much the workspace holds.
func measured(t *testing.T, workspace, to string) Tools {
	t.Helper()
	du, err := exec.LookPath("du")
	require.NoError(t, err)
	cut, err := exec.LookPath("cut")
	require.NoError(t, err)
	script := fmt.Sprintf("#!/bin/sh\n%s \"$@\" && %s -sb %s | %s -f1 > %s\n", bin(t, "etcdutl-"+v36), du, workspace, cut, to)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcdutl-3.6.99"), []byte(script), 0o700)) //nolint:gosec // it is to be run
	return Tools{Dir: dir}
}

// What a process that died has left behind neither stays nor counts against the next one's limit.
func TestLeftoversDoNotCountTwice(t *testing.T) {
	content := readAll(t, fixture(t, v36, "empty", nothing))
	size := int64(len(content))
	dir := t.TempDir()
	left := filepath.Join(dir, "artifact-of-before")
	require.NoError(t, os.MkdirAll(left, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, lockName), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(left, snapshotName), content, 0o600))
	s, err := NewScratch(dir, size, 1)
	require.NoError(t, err)
	require.NoDirExists(t, left)
	w, err := s.Open(t.Context(), size)
	require.NoError(t, err)
	m := storetest.NewMemory()
	put(t, m, content)
	for range 2 {
		// The second download replaces the first.
		_, err = Fetch(t.Context(), m, key, recordOf(content), w)
		require.NoError(t, err)
	}
	require.Equal(t, backupsv1alpha1.ReasonScratchTooSmall, fault.ReasonOf(w.Need(1), ""))
	require.NoError(t, w.Close())
	w, err = s.Open(t.Context(), size)
	require.NoError(t, err, "a workspace that is closed counts no more")
	require.NoError(t, w.Close())
}
