package artifact

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// What Inspect reads from the file is what the server that wrote it answers.
func TestInspectAgreesWithTheServer(t *testing.T) {
	for _, version := range []string{v36, v35} {
		t.Run(version, func(t *testing.T) {
			s := startEtcd(t, version, filepath.Join(t.TempDir(), "data"))
			require.NoError(t, awaitVersion(t.Context(), s, version))
			require.NoError(t, plain(t.Context(), s))
			members, err := s.MemberList(t.Context())
			require.NoError(t, err)
			raiseAlarm(t, s, members.Members[0].ID)
			path := filepath.Join(t.TempDir(), "s.db")
			require.NoError(t, s.snapshot(t.Context(), path))
			f, err := Inspect(t.Context(), path, Options{})
			require.NoError(t, err)

			all, err := s.Get(t.Context(), "\x00", clientv3.WithFromKey())
			require.NoError(t, err)
			want := map[string]Count{}
			var total Count
			for _, kv := range all.Kvs {
				c := want[Prefix(kv.Key)]
				c.Keys++
				c.Bytes += int64(len(kv.Key) + len(kv.Value))
				total.Keys++
				total.Bytes += int64(len(kv.Key) + len(kv.Value))
				want[Prefix(kv.Key)] = c
			}
			require.Equal(t, want, f.Prefixes)
			require.Equal(t, total, f.Keys)
			require.Nil(t, f.Rest)
			require.Equal(t, all.Header.Revision, f.Revision)
			require.Equal(t, minorOf(version), f.Minor())
			require.Equal(t, minorOf(version)+".0", f.ClusterVersion)
			require.Equal(t, version != v35, f.StorageVersion != "", "3.5 does not write one")
			require.Equal(t, f.Revision-51, f.CompactedRevision)
			require.Equal(t, int64(1), f.Leases)
			require.Equal(t, []Alarm{{MemberID: fmt.Sprintf("%x", members.Members[0].ID), Type: "NOSPACE"}}, f.Alarms)
			require.Len(t, f.Members, 1)
			require.Equal(t, fmt.Sprintf("%x", members.Members[0].ID), f.Members[0].ID)
			require.Equal(t, "default", f.Members[0].Name)
			require.Equal(t, members.Members[0].ClientURLs, f.Members[0].ClientURLs)
			require.False(t, f.Auth.Enabled)
			require.Positive(t, f.ConsistentIndex)
			require.Positive(t, f.Term)
			status, err := s.Status(t.Context(), s.Endpoints()[0])
			require.NoError(t, err)
			require.InDelta(t, status.DbSizeInUse, f.InUseBytes, 20*4096)
		})
	}
}

func raiseAlarm(t *testing.T, s *server, member uint64) {
	t.Helper()
	_, err := pb.NewMaintenanceClient(s.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: pb.AlarmType_NOSPACE,
	})
	require.NoError(t, err)
}

func TestInspectAuth(t *testing.T) {
	for _, version := range []string{v36, v35} {
		f, err := Inspect(t.Context(), fixture(t, version, "auth", withAuth), Options{})
		require.NoError(t, err)
		require.True(t, f.Auth.Enabled)
		require.Equal(t, []string{"root"}, f.Auth.Users)
		require.Equal(t, []string{"root", "tenant"}, f.Auth.Roles)
		require.NoError(t, f.Auth.CheckPassword("root", password))
		err = f.Auth.CheckPassword("root", "no-such-one")
		require.Equal(t, backupsv1alpha1.ReasonPasswordWrong, fault.ReasonOf(err, ""))
		require.NotContains(t, err.Error(), "no-such-one")
		require.Equal(t, backupsv1alpha1.ReasonAuthMismatch, fault.ReasonOf(f.Auth.CheckPassword("nobody", password), ""))
		b, err := json.Marshal(f)
		require.NoError(t, err)
		require.NotContains(t, string(b), "$2a$", "hashes of passwords stay out of reports")
	}
}

func TestInspectEmpty(t *testing.T) {
	f, err := Inspect(t.Context(), fixture(t, v36, "empty", nothing), Options{})
	require.NoError(t, err)
	require.Equal(t, Count{}, f.Keys)
	require.Equal(t, int64(1), f.Revision, "as etcd counts")
	require.Zero(t, f.Revisions)
	require.Empty(t, f.Prefixes)
	require.Equal(t, "3.6", f.Minor())
	require.NoError(t, f.Auth.CheckPassword("root", ""), "auth is off")
}

func TestPrefix(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/pods/default/a": "/registry/pods", "/registry/namespaces/a": "/registry/namespaces", "/a/b": "/a", "/a": "/", "a": "", "": "",
		"a/b": "a", "a/b/c": "a/b", "a/b/c/d": "a/b", "//x/y": "//x", "/": "/", "/a/": "/a", "/a/b/": "/a/b",
	} {
		require.Equal(t, want, Prefix([]byte(key)), "%q", key)
	}
}

func TestTallySpillsWithoutChangingTheCount(t *testing.T) {
	path := fixture(t, v36, "plain", plain)
	in, err := Inspect(t.Context(), path, Options{})
	require.NoError(t, err)
	for _, limit := range []int{0, 10, 350} {
		r := newReport(t.TempDir())
		r.tally.limit = limit
		f, size := openDB(t, path)
		_, err = walk(t.Context(), f, size, r.entry)
		require.NoError(t, err)
		out, err := r.finish(nil)
		require.NoError(t, err)
		require.NotNil(t, r.tally.partitions)
		require.Equal(t, in.Keys, out.Keys)
		require.Equal(t, in.Prefixes, out.Prefixes)
		r.tally.close()
	}
}

func openDB(t *testing.T, path string) (*os.File, int64) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	require.NoError(t, err)
	return f, info.Size() - info.Size()%sectorSize
}

func TestManyPrefixesEndInTheRest(t *testing.T) {
	r := newReport(t.TempDir())
	for i := range 3 * maxPrefixes {
		key := fmt.Appendf(nil, "/p/%d/k", i)
		require.NoError(t, r.tally.put(key, r.prefixes.number(key), 10))
	}
	f, err := r.finish(nil)
	require.NoError(t, err)
	require.Equal(t, Count{Keys: 3 * maxPrefixes, Bytes: 30 * maxPrefixes}, f.Keys)
	require.Len(t, f.Prefixes, maxPrefixes)
	require.Equal(t, int64(2*maxPrefixes), f.Rest.Keys)
}

func TestCompareWithALiveList(t *testing.T) {
	path := fixture(t, v36, "plain", plain)
	list := func(keys ...string) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for _, k := range keys {
				if !yield([]byte(k), nil) {
					return
				}
			}
		}
	}
	keys := []string{"flat", "/registry/pods/ns-1/p-1", "/registry/pods/ns-3/p-3", "/new/one/k", "/new/one/l", ""}
	for _, limit := range []int{tallyLimit, 0, 361} {
		r := newReport(t.TempDir())
		r.tally.limit = limit
		f, size := openDB(t, path)
		_, err := walk(t.Context(), f, size, r.entry)
		require.NoError(t, err)
		facts, err := r.finish(list(keys...))
		require.NoError(t, err)
		d := facts.Difference
		require.Equal(t, Change{Keys: 3, Prefixes: map[string]int64{"/new/one": 2, "/registry/pods": 1}}, d.Vanish, "a key that the snapshot saw deleted vanishes too")
		require.Equal(t, facts.Keys.Keys-2, d.Appear.Keys)
		require.Zero(t, d.Appear.Prefixes[""], "flat is in both")
		r.tally.close()
	}
	failed := func(yield func([]byte, error) bool) { yield(nil, context.DeadlineExceeded) }
	_, err := Inspect(t.Context(), path, Options{Compare: failed})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
