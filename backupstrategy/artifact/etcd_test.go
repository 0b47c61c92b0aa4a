package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdserver"
)

const (
	v36    = "3.6.11"
	v36new = "3.6.16"
	v35    = "3.5.35"
)

func bin(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("COZY_ETCD_BIN")
	if dir == "" {
		dir = "../../bin"
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	require.FileExists(t, path, "run `make tools`")
	return path
}

func tools(t testing.TB) Tools { return Tools{Dir: filepath.Dir(bin(t, "etcdutl-"+v36))} }

// server is a real etcd of one member.
type server struct {
	*etcdserver.Server
}

// startEtcd runs etcd, on data that may come out of a snapshot, until the test ends.
func startEtcd(t testing.TB, version, dir string, args ...string) *server {
	t.Helper()
	s, err := etcdserver.Start(t.Context(), bin(t, "etcd-"+version), dir, args...)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return &server{s}
}

func (s *server) snapshot(ctx context.Context, to string) error {
	r, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(f, r)
	return err
}

// fixtures are snapshots of real servers, taken once for all tests.
var fixtures struct {
	sync.Mutex
	dir    string
	byName map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if fixtures.dir != "" {
		_ = os.RemoveAll(fixtures.dir)
	}
	os.Exit(code)
}

// fixture is the path of a snapshot; fill writes what is in it.
func fixture(t testing.TB, version, name string, fill func(ctx context.Context, s *server) error) string {
	t.Helper()
	fixtures.Lock()
	defer fixtures.Unlock()
	if fixtures.dir == "" {
		dir, err := os.MkdirTemp("", "artifact-fixtures-")
		require.NoError(t, err)
		fixtures.dir, fixtures.byName = dir, map[string]string{}
	}
	key := version + "-" + name
	if path, ok := fixtures.byName[key]; ok {
		return path
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	started, err := etcdserver.Start(ctx, bin(t, "etcd-"+version), filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	s := &server{started}
	defer s.Stop()
	require.NoError(t, awaitVersion(ctx, s, version))
	require.NoError(t, fill(ctx, s))
	path := filepath.Join(fixtures.dir, key+".db")
	require.NoError(t, s.snapshot(ctx, path))
	fixtures.byName[key] = path
	return path
}

// awaitVersion waits until the members have agreed on their version, and 3.6 has written it down: that is what a snapshot tells it by.
func awaitVersion(ctx context.Context, s *server, version string) error {
	for {
		agreed, err := agreedVersion(ctx, s)
		if err != nil {
			return err
		}
		status, err := s.Status(ctx, s.Endpoints()[0])
		if err != nil {
			return err
		}
		// 3.5 has no such thing, and 3.6 says "3.5.0" until it has written its own.
		if minorOf(agreed) == minorOf(version) && (version == v35 || minorOf(status.StorageVersion) == minorOf(version)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func agreedVersion(ctx context.Context, s *server) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoints()[0]+"/version", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var v struct {
		Cluster string `json:"etcdcluster"`
	}
	err = json.NewDecoder(resp.Body).Decode(&v)
	return v.Cluster, err
}

// plain is a small key space with history: rewritten and deleted keys, a compaction, a lease, an alarm.
func plain(ctx context.Context, s *server) error {
	for i := range 300 {
		if _, err := s.Put(ctx, fmt.Sprintf("/registry/pods/ns-%d/p-%d", i%7, i), strings.Repeat("x", i)); err != nil {
			return err
		}
	}
	for i := range 100 {
		if _, err := s.Put(ctx, fmt.Sprintf("/tenant/%d/leaf", i), "v"); err != nil {
			return err
		}
	}
	if _, err := s.Delete(ctx, "/registry/pods/ns-3/", clientv3.WithPrefix()); err != nil {
		return err
	}
	resp, err := s.Put(ctx, "/registry/pods/ns-1/p-1", "again")
	if err != nil {
		return err
	}
	if _, err := s.Compact(ctx, resp.Header.Revision-50); err != nil {
		return err
	}
	if _, err := s.Grant(ctx, 3600); err != nil {
		return err
	}
	_, err = s.Put(ctx, "flat", "value")
	return err
}

func nothing(context.Context, *server) error { return nil }

const password = "root-password"

func withAuth(ctx context.Context, s *server) error {
	if _, err := s.Put(ctx, "/a/b/c", "d"); err != nil {
		return err
	}
	if _, err := s.UserAdd(ctx, "root", password); err != nil {
		return err
	}
	if _, err := s.RoleAdd(ctx, "root"); err != nil {
		return err
	}
	if _, err := s.UserGrantRole(ctx, "root", "root"); err != nil {
		return err
	}
	if _, err := s.RoleAdd(ctx, "tenant"); err != nil {
		return err
	}
	if _, err := s.AuthEnable(ctx); err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Username: "root", Password: password, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	_ = s.Close()
	s.Client = c
	return nil
}

// loose has most of its pages free: much was written, deleted and compacted, and nothing defragmented.
func loose(ctx context.Context, s *server) error {
	value := strings.Repeat("v", 10_000)
	for i := range 400 {
		if _, err := s.Put(ctx, fmt.Sprintf("/big/%d", i), value); err != nil {
			return err
		}
	}
	resp, err := s.Delete(ctx, "/big/1", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	_, err = s.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil {
		return err
	}
	for i := range 20 { // lets the freed pages be committed
		if _, err := s.Put(ctx, "/tick", fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

func readAll(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// retrail replaces the trailing sha256 by the right one, as whoever damages a snapshot on purpose would.
func retrail(snapshot []byte) []byte {
	db := snapshot[:len(snapshot)-len(snapshot)%sectorSize]
	sum := sha256.Sum256(db)
	return append(append([]byte(nil), db...), sum[:]...)
}

func workspace(t testing.TB) *Workspace {
	t.Helper()
	s, err := NewScratch(t.TempDir(), 0, 1)
	require.NoError(t, err)
	w, err := s.Open(t.Context(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// load puts a snapshot into a workspace as Fetch does.
func load(t testing.TB, w *Workspace, path string) File {
	t.Helper()
	require.NoError(t, os.WriteFile(w.Path(snapshotName), readAll(t, path), 0o600))
	sums, err := HashFile(t.Context(), w.Path(snapshotName))
	require.NoError(t, err)
	require.NoError(t, sums.Check(Record{}))
	return File{Path: w.Path(snapshotName), Sums: sums}
}
