package artifact

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store/storetest"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const million = 1_000_000

// A prepared copy restores with and without its hash being checked, into the same keys at a bumped revision, and a watch at an old revision ends at once.
func TestPreparedCopiesRestore(t *testing.T) {
	cases := []struct {
		version, name string
		fill          func(context.Context, *server) error
		restoreWith   string
		skipHash      bool
	}{
		{v36, "plain", plain, v36, false},
		{v36, "plain", plain, v36new, true},
		{v35, "plain", plain, v35, true},
		{v35, "plain", plain, v35, false},
		{v35, "plain", plain, v36, true}, // the next minor, where that is allowed
		{v36, "plain", plain, v35, true}, // and the minor before
		{v36, "empty", nothing, v36, true},
		{v36, "loose", loose, v36, true},
		{v35, "loose", loose, v35, false},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%s of %s with %s", tc.name, tc.version, tc.restoreWith), func(t *testing.T) {
			w := workspace(t)
			f := load(t, w, fixture(t, tc.version, tc.name, tc.fill))
			facts, err := Inspect(t.Context(), f.Path, Options{})
			require.NoError(t, err)
			p, err := Prepare(t.Context(), f, facts, PrepareOptions{Workspace: w, Tools: tools(t), Bump: million})
			require.NoError(t, err)
			requireConsistent(t, p, facts)
			requireServes(t, p, facts, tc.restoreWith, tc.skipHash)
			require.FileExists(t, f.Path, "the snapshot stays unless it may be consumed")
			require.NoDirExists(t, w.Path(dataName))
		})
	}
}

// requireConsistent looks at the file: it proves itself as a snapshot does, and holds the same keys.
func requireConsistent(t *testing.T, p Prepared, facts Facts) {
	t.Helper()
	sums, err := HashFile(t.Context(), p.Path)
	require.NoError(t, err)
	require.NoError(t, sums.Check(Record{SizeBytes: p.SizeBytes, Checksum: p.Checksum}))
	got, err := Inspect(t.Context(), p.Path, Options{})
	require.NoError(t, err)
	require.Equal(t, facts.Keys, got.Keys)
	require.Equal(t, facts.Prefixes, got.Prefixes)
	require.Equal(t, p.Revision, got.Revision)
	require.Equal(t, p.Revision, got.CompactedRevision)
	require.Equal(t, facts.Auth.Enabled, got.Auth.Enabled)
	require.LessOrEqual(t, got.DatabaseBytes, facts.InUseBytes+facts.DatabaseBytes/worthSqueezing+40*pageSize, "free pages are left out")
	if facts.Revisions > 0 {
		require.Equal(t, facts.Revision+million, p.Revision, "a bump is an increment")
	}
}

// requireServes restores the copy as the operator's init container does and asks a real server.
func requireServes(t *testing.T, p Prepared, facts Facts, version string, skipHash bool) {
	t.Helper()
	s := startEtcd(t, version, restore(t, p.Path, version, skipHash))
	all, err := s.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Equal(t, facts.Keys.Keys, all.Count)
	require.Equal(t, p.Revision, all.Header.Revision)
	resp, err := s.Put(t.Context(), "after", "restore")
	require.NoError(t, err)
	require.Equal(t, p.Revision+1, resp.Header.Revision)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	select {
	case answer := <-s.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(facts.Revision)):
		require.ErrorIs(t, answer.Err(), rpctypes.ErrCompacted)
	case <-ctx.Done():
		require.Fail(t, "a watch at an old revision hangs")
	}
}

func restore(t *testing.T, snapshot, version string, skipHash bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"snapshot", "restore", snapshot, "--data-dir", dir}
	if skipHash {
		args = append(args, "--skip-hash-check")
	}
	out, err := exec.CommandContext(t.Context(), bin(t, "etcdutl-"+version), args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// The control: without the bump, the same watch hangs, which is what the copy is for.
func TestWithoutPreparationOldWatchesHang(t *testing.T) {
	path := fixture(t, v36, "plain", plain)
	facts, err := Inspect(t.Context(), path, Options{})
	require.NoError(t, err)
	s := startEtcd(t, v36, restore(t, path, v36, false))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	select {
	case answer := <-s.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(facts.Revision+10)):
		require.Error(t, answer.Err())
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	case <-ctx.Done():
	}
}

func TestAuthSurvivesPreparation(t *testing.T) {
	w := workspace(t)
	f := load(t, w, fixture(t, v36, "auth", withAuth))
	facts, err := Inspect(t.Context(), f.Path, Options{})
	require.NoError(t, err)
	p, err := Prepare(t.Context(), f, facts, PrepareOptions{Workspace: w, Tools: tools(t), Bump: million})
	require.NoError(t, err)
	s := startEtcd(t, v36, restore(t, p.Path, v36, false))
	_, err = s.Get(t.Context(), "/a/b/c")
	require.ErrorIs(t, err, rpctypes.ErrUserEmpty)
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Username: "root", Password: password})
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	got, err := c.Get(t.Context(), "/a/b/c")
	require.NoError(t, err)
	require.Equal(t, int64(1), got.Count)
}

func TestPrepareUploadAndFetchAgain(t *testing.T) {
	w := workspace(t)
	f := load(t, w, fixture(t, v36, "plain", plain))
	facts, err := Inspect(t.Context(), f.Path, Options{})
	require.NoError(t, err)
	p, err := Prepare(t.Context(), f, facts, PrepareOptions{Workspace: w, Tools: tools(t), Bump: 1})
	require.NoError(t, err)
	m := storetest.NewMemory()
	to := PreparedKey(key, "7f4c")
	require.NoError(t, Upload(t.Context(), m, to, "7f4c", p))
	info, err := m.Head(t.Context(), to)
	require.NoError(t, err)
	require.Equal(t, "7f4c", info.Metadata[MetadataOwner])
	_, err = Fetch(t.Context(), m, to, Record{SizeBytes: p.SizeBytes, Checksum: p.Checksum}, workspace(t))
	require.NoError(t, err)
}

func TestPrepareRefusals(t *testing.T) {
	w := workspace(t)
	f := load(t, w, fixture(t, v36, "plain", plain))
	facts, err := Inspect(t.Context(), f.Path, Options{})
	require.NoError(t, err)
	options := PrepareOptions{Workspace: w, Tools: tools(t), Bump: million}

	t.Run("no tool for the minor", func(t *testing.T) {
		o := options
		o.Minor = "3.4"
		_, err := Prepare(t.Context(), f, facts, o)
		require.Equal(t, backupsv1alpha1.ReasonToolMissing, fault.ReasonOf(err, ""))
		require.ErrorContains(t, err, v35)
		o.Minor = ""
		unknown := facts
		unknown.StorageVersion, unknown.ClusterVersion = "", ""
		_, err = Prepare(t.Context(), f, unknown, o)
		require.Equal(t, backupsv1alpha1.ReasonToolMissing, fault.ReasonOf(err, ""))
	})
	t.Run("no bump", func(t *testing.T) {
		o := options
		o.Bump = 0
		_, err := Prepare(t.Context(), f, facts, o)
		require.Equal(t, backupsv1alpha1.ReasonPrepareFailed, fault.ReasonOf(err, ""))
	})
	t.Run("scratch", func(t *testing.T) {
		o := options
		small, err := NewScratch(t.TempDir(), PrepareNeed(f.Sums.Size)-1, 1)
		require.NoError(t, err)
		o.Workspace, err = small.Open(t.Context(), 0)
		require.NoError(t, err)
		_, err = Prepare(t.Context(), f, facts, o)
		require.Equal(t, backupsv1alpha1.ReasonScratchTooSmall, fault.ReasonOf(err, ""))
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Prepare(ctx, f, facts, options)
		require.ErrorIs(t, err, context.Canceled)
	})
	// Without free pages the snapshot itself goes to etcdutl.
	facts.InUseBytes = facts.DatabaseBytes
	t.Run("etcdutl fails", func(t *testing.T) {
		damaged := f
		damaged.Path = w.Path("damaged.db")
		b := readAll(t, f.Path)
		clear(b[:2*pageSize])
		require.NoError(t, os.WriteFile(damaged.Path, b, 0o600))
		_, err := Prepare(t.Context(), damaged, facts, options)
		require.Equal(t, backupsv1alpha1.ReasonPrepareFailed, fault.ReasonOf(err, ""))
		require.ErrorContains(t, err, "exit status")
		require.ErrorContains(t, err, "etcdutl-"+v36new)
		require.NoDirExists(t, w.Path(dataName))
	})
	t.Run("etcdutl does something else", func(t *testing.T) {
		dir := t.TempDir()
		script := "#!/bin/sh\nexec " + bin(t, "etcdutl-"+v36) + " snapshot restore --skip-hash-check \"$3\" --data-dir \"$6\"\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etcdutl-3.6.99"), []byte(script), 0o700)) //nolint:gosec // it is to be run
		o := options
		o.Tools = Tools{Dir: dir}
		_, err := Prepare(t.Context(), f, facts, o)
		require.Equal(t, backupsv1alpha1.ReasonPrepareFailed, fault.ReasonOf(err, ""))
		require.ErrorContains(t, err, fmt.Sprintf("both should be %d", facts.Revision+million))
	})
	p, err := Prepare(t.Context(), f, facts, options)
	require.NoError(t, err, "after all of that")
	requireConsistent(t, p, facts)
	require.Equal(t, "etcdutl-"+v36new, p.Etcdutl, "the newest of the minor")
}

func TestToolsWithoutBumpAreNotTaken(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"etcdutl-3.5.9": 0o700, "etcdutl-3.6.1": 0o600, "etcdutl-3.6.0-rc.1": 0o700, "etcdutl-": 0o700, "etcdutl-3.4.40": 0o700} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	for _, minor := range []string{"3.4", "3.5", "3.6", ""} {
		_, err := Tools{Dir: dir}.Etcdutl(minor)
		require.Equal(t, backupsv1alpha1.ReasonToolMissing, fault.ReasonOf(err, ""), minor)
	}
	for _, name := range []string{"etcdutl-3.5.10", "etcdutl-3.6.2", "etcdutl-3.6.12", "etcdutl-3.7.0"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700)) //nolint:gosec // tools are executable
	}
	for minor, want := range map[string]string{"3.5": "etcdutl-3.5.10", "3.6": "etcdutl-3.6.12", "3.7": "etcdutl-3.7.0"} {
		got, err := Tools{Dir: dir}.Etcdutl(minor)
		require.NoError(t, err)
		require.Equal(t, want, filepath.Base(got))
	}
}

// A snapshot of a cluster that was itself restored from a prepared copy is prepared again, further on.
func TestSecondRestore(t *testing.T) {
	w := workspace(t)
	f := load(t, w, fixture(t, v36, "plain", plain))
	facts, err := Inspect(t.Context(), f.Path, Options{})
	require.NoError(t, err)
	p, err := Prepare(t.Context(), f, facts, PrepareOptions{Workspace: w, Tools: tools(t), Bump: million})
	require.NoError(t, err)
	s := startEtcd(t, v36, restore(t, p.Path, v36, true))
	require.NoError(t, awaitVersion(t.Context(), s, v36))
	_, err = s.Put(t.Context(), "/second/one/k", "v")
	require.NoError(t, err)
	again := filepath.Join(t.TempDir(), "again.db")
	require.NoError(t, s.snapshot(t.Context(), again))
	s.Stop()

	w = workspace(t)
	f = load(t, w, again)
	second, err := Inspect(t.Context(), f.Path, Options{})
	require.NoError(t, err)
	require.Equal(t, facts.Keys.Keys+1, second.Keys.Keys, "the entry of the bump is no key")
	require.Equal(t, p.Revision+1, second.Revision)
	p, err = Prepare(t.Context(), f, second, PrepareOptions{Workspace: w, Tools: tools(t), Bump: million})
	require.NoError(t, err)
	requireConsistent(t, p, second)
	requireServes(t, p, second, v36, false)
}

func TestEntriesOfABumpAreNoKeys(t *testing.T) {
	r := newReport(t.TempDir())
	k := make([]byte, revisionSize)
	binary.BigEndian.PutUint64(k, 77)
	k[8] = '_'
	require.NoError(t, r.entry([]byte(bucketKey), k, []byte{}, 0))
	f, err := r.finish(nil)
	require.NoError(t, err)
	require.Zero(t, f.Keys.Keys)
	require.Equal(t, int64(77), f.Revision)
}
