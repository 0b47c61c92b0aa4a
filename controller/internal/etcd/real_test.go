package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdserver"
)

const version = "3.6.11"

func bin(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("COZY_ETCD_BIN")
	if dir == "" {
		dir = "../../../bin"
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	require.FileExists(t, path, "run `make tools`")
	return path
}

// serve runs a real etcd of one member on a data folder.
func serve(t *testing.T, dir string, args ...string) (*clientv3.Client, Target) {
	t.Helper()
	s, err := etcdserver.Start(t.Context(), bin(t, "etcd-"+version), dir, args...)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	host, port, _ := strings.Cut(s.Address, ":")
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return s.Client, Target{Host: host, Port: n}
}

// More keys than a page holds come once each, at the revision of the first page, whatever is written or deleted meanwhile; and one that is compacted away
// ends the list with an error.
func TestListKeysAtOneRevision(t *testing.T) {
	ctx := t.Context()
	c, target := serve(t, filepath.Join(t.TempDir(), "data"))
	want := 2*keyPage + 7
	for from := 0; from < want; from += 100 {
		var puts []clientv3.Op
		for i := from; i < min(from+100, want); i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/k/%06d", i), strings.Repeat("v", 10)))
		}
		_, err := c.Txn(ctx).Then(puts...).Commit()
		require.NoError(t, err)
	}
	k, err := NetDialer{}.DialKeys(target)
	require.NoError(t, err)
	defer func() { _ = k.Close() }()
	require.Zero(t, k.Revision())
	seen := map[string]int{}
	for key, err := range k.List(ctx) {
		require.NoError(t, err)
		if seen[string(key)]++; len(seen) == 1 {
			_, err := c.Delete(ctx, "/k/009999")
			require.NoError(t, err)
			_, err = c.Put(ctx, "/k/zzz", "late")
			require.NoError(t, err)
		}
	}
	require.Len(t, seen, want)
	require.NotContains(t, seen, "/k/zzz")
	require.Contains(t, seen, "/k/009999")
	for key, n := range seen {
		require.Equal(t, 1, n, key)
	}
	require.Equal(t, int64(1+(want+99)/100), k.Revision())

	again, err := NetDialer{}.DialKeys(target)
	require.NoError(t, err)
	defer func() { _ = again.Close() }()
	n := 0
	var ended error
	for _, err := range again.List(ctx) {
		if n++; n == 1 {
			r, err := c.Put(ctx, "/k/more", "x")
			require.NoError(t, err)
			_, err = c.Compact(ctx, r.Header.Revision)
			require.NoError(t, err)
		}
		ended = err
	}
	require.ErrorIs(t, ended, ErrCompacted)
	for range again.List(ctx) {
		break // a reader may stop at any time
	}
}

// With auth on, nobody reads without a user, and only one that may read everything does.
func TestC31ReadAsAUser(t *testing.T) {
	ctx := t.Context()
	c, target := serve(t, filepath.Join(t.TempDir(), "data"), "--bcrypt-cost=4")
	read := func(user, password string) error {
		target.User, target.Password = user, password
		l, err := NetDialer{}.DialLogin(target)
		if err != nil {
			return err
		}
		defer func() { require.NoError(t, l.Close()) }()
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return l.ReadOne(bounded)
	}
	require.NoError(t, read("", ""), "nothing is there, and auth is off")
	for user, role := range map[string]string{"root": "root", "limited": "some"} {
		_, err := c.UserAdd(ctx, user, "p-"+user)
		require.NoError(t, err)
		_, err = c.RoleAdd(ctx, role)
		require.NoError(t, err)
		_, err = c.UserGrantRole(ctx, user, role)
		require.NoError(t, err)
	}
	_, err := c.AuthEnable(ctx)
	require.NoError(t, err)
	require.NoError(t, read("root", "p-root"))
	require.ErrorContains(t, read("", ""), "user name is empty")
	require.ErrorContains(t, read("limited", "p-limited"), "permission denied")
	wrong := read("root", "p-other")
	require.ErrorContains(t, wrong, "authentication failed")
	require.NotContains(t, wrong.Error(), "p-other")
}

// A snapshot of an etcd that ran out of space brings its alarm along into a cluster with a larger quota; that alarm alone is lifted.
func TestDisarmAnAlarmThatCameWithASnapshot(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	full, _ := serve(t, filepath.Join(dir, "full"), "--quota-backend-bytes=2097152")
	value := strings.Repeat("x", 100_000)
	var err error
	for i := 0; err == nil; i++ {
		require.Less(t, i, 100, "it never runs out of space")
		_, err = full.Put(ctx, fmt.Sprintf("/k/%d", i), value)
	}
	require.ErrorContains(t, err, "database space exceeded")
	snapshot := filepath.Join(dir, "s.db")
	r, err := full.Snapshot(ctx)
	require.NoError(t, err)
	f, err := os.Create(snapshot)
	require.NoError(t, err)
	_, err = io.Copy(f, r)
	require.NoError(t, errors.Join(err, f.Close(), r.Close()))
	restored := filepath.Join(dir, "restored")
	out, err := exec.CommandContext(ctx, bin(t, "etcdutl-"+version), "snapshot", "restore", snapshot, "--data-dir="+restored, "--bump-revision=1000", "--mark-compacted").CombinedOutput()
	require.NoError(t, err, string(out))

	c, target := serve(t, restored)
	reader, err := NetDialer{}.Dial(target)
	require.NoError(t, err)
	defer func() { _ = reader.Close() }()
	s, err := reader.Status(ctx)
	require.NoError(t, err)
	require.Len(t, s.Errors, 1)
	require.Contains(t, s.Errors[0], "NOSPACE")
	_, err = c.Put(ctx, "/k", "v")
	require.ErrorContains(t, err, "database space exceeded", "etcd itself never lifts it")

	// An alarm of another kind must stay.
	raise := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: s.MemberID, Alarm: pb.AlarmType_CORRUPT}
	_, err = pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(ctx, raise)
	require.NoError(t, err)
	alarms, err := NetDialer{}.DialAlarms(target)
	require.NoError(t, err)
	defer func() { _ = alarms.Close() }()
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	require.NoError(t, alarms.DisarmNoSpace(bounded))
	require.NoError(t, alarms.DisarmNoSpace(bounded), "nothing to lift is no error")
	s, err = reader.Status(ctx)
	require.NoError(t, err)
	require.Len(t, s.Errors, 1)
	require.Contains(t, s.Errors[0], "CORRUPT")
	_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: s.MemberID, Alarm: pb.AlarmType_CORRUPT})
	require.NoError(t, err)
	_, err = c.Put(ctx, "/k", "v")
	require.NoError(t, err)
}
