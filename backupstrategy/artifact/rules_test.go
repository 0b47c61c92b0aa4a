package artifact

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

func TestBumpPassesEveryKnownRevision(t *testing.T) {
	for name, r := range map[string]Revisions{
		"live":              {Snapshot: 100, Live: []int64{900, 950, 949}, Quorum: true},
		"high water":        {Snapshot: 100, Live: []int64{900}, HighWater: 5_000_000, Quorum: true},
		"nobody answers":    {Snapshot: 100},
		"too few answer":    {Snapshot: 100, Live: []int64{900}},
		"snapshot is ahead": {Snapshot: 100, Live: []int64{7}, Quorum: true},
		"very high":         {Snapshot: 1, Live: []int64{math.MaxInt64/2 + 5}},
		"empty":             {},
	} {
		bump := Bump(r)
		highest := max(r.Snapshot, r.HighWater)
		for _, l := range r.Live {
			highest = max(highest, l)
		}
		require.Positive(t, bump, name)
		slack := r.Snapshot + bump - highest
		require.GreaterOrEqual(t, slack, int64(million), name)
		if !r.Quorum && highest < math.MaxInt64/2 {
			require.GreaterOrEqual(t, slack, int64(1_000*million), name)
		}
		require.Less(t, slack, int64(math.MaxInt64/4), name)
	}
}

func TestFit(t *testing.T) {
	snapshot := Facts{ClusterVersion: "3.6.0", StorageVersion: "3.6.0", InUseBytes: 500 << 20}
	target := Target{Version: "3.6.11", QuotaBytes: 1 << 30, VolumeBytes: 4 << 30, OperatorMinors: []string{"3.6"}}
	type change struct {
		facts  func(*Facts)
		target func(*Target)
		size   int64
	}
	cases := []struct {
		name   string
		change change
		reason string
		says   string
	}{
		{"fits", change{}, "", ""},
		{"older minor", change{facts: func(f *Facts) { f.StorageVersion, f.ClusterVersion = "", "3.5.0" }}, backupsv1alpha1.ReasonVersionUnsupported, "3.5"},
		{"older minor, allowed", change{facts: func(f *Facts) { f.StorageVersion, f.ClusterVersion = "", "3.5.0" }, target: func(t *Target) { t.AllowMinor = true }}, "", ""},
		{"two minors older, allowed", change{facts: func(f *Facts) { f.StorageVersion, f.ClusterVersion = "", "3.4.0" }, target: func(t *Target) { t.AllowMinor = true }}, backupsv1alpha1.ReasonVersionUnsupported, "one minor at a time"},
		{"3.6 onto 3.5", change{target: func(t *Target) { t.Version, t.OperatorMinors = "3.5.35", []string{"3.5", "3.6"} }}, backupsv1alpha1.ReasonVersionUnsupported, "older etcd"},
		{"3.6 onto 3.5, allowed", change{target: func(t *Target) { t.Version, t.OperatorMinors, t.AllowMinor = "3.5.35", []string{"3.5"}, true }}, "", ""},
		{"3.7 onto 3.5, allowed", change{facts: func(f *Facts) { f.StorageVersion = "3.7.0" }, target: func(t *Target) { t.Version, t.OperatorMinors, t.AllowMinor = "3.5.35", []string{"3.5"}, true }}, backupsv1alpha1.ReasonVersionUnsupported, "one minor at a time"},
		{"unknown version", change{facts: func(f *Facts) { f.StorageVersion, f.ClusterVersion = "", "" }}, backupsv1alpha1.ReasonVersionUnsupported, "does not say"},
		{"unknown version, allowed", change{facts: func(f *Facts) { f.StorageVersion, f.ClusterVersion = "", "" }, target: func(t *Target) { t.AllowMinor = true }}, "", ""},
		{"operator cannot", change{facts: func(f *Facts) { f.StorageVersion, f.ClusterVersion = "", "3.5.0" }, target: func(t *Target) { t.Version = "3.5.35" }}, backupsv1alpha1.ReasonVersionUnsupported, "operator restores etcd 3.6 only"},
		{"operator unknown", change{target: func(t *Target) { t.OperatorMinors = nil }}, backupsv1alpha1.ReasonVersionUnsupported, "operator"},
		{"v in front", change{target: func(t *Target) { t.Version = "v3.6.11" }}, "", ""},
		{"nonsense", change{target: func(t *Target) { t.Version = "latest" }}, backupsv1alpha1.ReasonVersionUnsupported, "latest"},
		{"larger than the quota", change{facts: func(f *Facts) { f.InUseBytes = 1 << 30 }}, backupsv1alpha1.ReasonQuotaTooSmall, "1073741824"},
		{"as large as the default quota", change{facts: func(f *Facts) { f.InUseBytes = 2 << 30 }, target: func(t *Target) { t.QuotaBytes = 0 }}, backupsv1alpha1.ReasonQuotaTooSmall, "2147483648"},
		{"volume", change{size: 2 << 30}, backupsv1alpha1.ReasonVolumeTooSmall, "4294967296"},
		{"volume unknown", change{size: 2 << 30, target: func(t *Target) { t.VolumeBytes = 0 }}, "", ""},
		{"auth on, spec off", change{facts: func(f *Facts) { f.Auth.Enabled = true }}, backupsv1alpha1.ReasonAuthMismatch, "spec.auth is off"},
		{"auth off, spec on", change{target: func(t *Target) { t.AuthEnabled = true }}, backupsv1alpha1.ReasonAuthMismatch, "spec.auth is on"},
		{"corrupt", change{facts: func(f *Facts) {
			f.Alarms = []Alarm{{MemberID: "a1", Type: "NOSPACE"}, {MemberID: "b2", Type: "CORRUPT"}}
		}}, backupsv1alpha1.ReasonCorruptAlarm, "member b2"},
		{"full", change{facts: func(f *Facts) { f.Alarms = []Alarm{{MemberID: "a1", Type: "NOSPACE"}} }}, "", ""},
		{"auth on both", change{facts: func(f *Facts) { f.Auth.Enabled = true }, target: func(t *Target) { t.AuthEnabled = true }}, "", ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f, to, size := snapshot, target, int64(500<<20)
			if tc.change.facts != nil {
				tc.change.facts(&f)
			}
			if tc.change.target != nil {
				tc.change.target(&to)
			}
			if tc.change.size != 0 {
				size = tc.change.size
			}
			err := Fit(f, size, to)
			if tc.reason == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, tc.reason, fault.ReasonOf(err, ""))
			require.Equal(t, fault.Terminal, fault.ClassOf(err))
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestMinor(t *testing.T) {
	for version, want := range map[string]string{"3.6.11": "3.6", "v3.5.0": "3.5", "3.6": "3.6", "3.10.1": "3.10", "3": "", "": "", "x.y.z": "", "3..1": "", "3.6.0-rc.1": "3.6"} {
		require.Equal(t, want, minorOf(version), version)
	}
	require.True(t, next("3.9", "3.10"))
	require.False(t, next("2.9", "3.10"))
}

func TestPreparedKeys(t *testing.T) {
	for original, want := range map[string]string{
		"ns/etcd/snap-1.db": "ns/etcd/snap-1.prepared-u1.db", "x.db": "x.prepared-u1.db", "/odd//a": "/odd//a.prepared-u1.db",
	} {
		require.Equal(t, want, PreparedKey(original, "u1"))
		uid, ok := PreparedFor(want)
		require.True(t, ok)
		require.Equal(t, "u1", uid)
	}
	for _, other := range []string{"ns/etcd/snap.db", "a.prepared-.db", "a.prepared-u1/x.db", "a.prepared-u1"} {
		_, ok := PreparedFor(other)
		require.False(t, ok, other)
	}
}

func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	s, err := NewScratch(dir, 1<<20, 1)
	require.NoError(t, err)
	w, err := s.Open(t.Context(), 1<<20)
	require.NoError(t, err)
	requireWaits(t, s)

	other, err := NewScratch(dir, 0, 2)
	require.NoError(t, err)
	require.DirExists(t, w.Dir, "another process's workspace stays while it is in use")
	_, err = other.Open(t.Context(), 1<<60)
	require.Equal(t, backupsv1alpha1.ReasonScratchTooSmall, fault.ReasonOf(err, ""))
	require.ErrorContains(t, err, "1152921504606846976")

	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.NoDirExists(t, w.Dir)
	w, err = s.Open(t.Context(), 0)
	require.NoError(t, err, "the slot is free again")
	_, err = s.open(1<<20 + 1)
	require.ErrorContains(t, err, "the limit is 1048576")
	require.NoError(t, w.Close())

	left := filepath.Join(dir, "artifact-dead")
	require.NoError(t, os.MkdirAll(left, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, lockName), nil, 0o600))
	foreign := filepath.Join(dir, "somebody-elses")
	require.NoError(t, os.MkdirAll(foreign, 0o700))
	_, err = NewScratch(dir, 0, 1)
	require.NoError(t, err)
	require.NoDirExists(t, left, "what a dead process left is removed")
	require.DirExists(t, foreign)

	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err = NewScratch(filepath.Join(blocked, "x"), 0, 1)
	require.Equal(t, backupsv1alpha1.ReasonScratchUnusable, fault.ReasonOf(err, ""))
	require.Equal(t, backupsv1alpha1.ReasonScratchTooSmall, fault.ReasonOf(scratchError(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), ""))
}

func requireWaits(t *testing.T, s *Scratch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Open(ctx, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
