package restorejob

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// One error that may heal, at or after the deadline, costs neither the way back nor a success.
func TestOvercomeAfterTheDeadline(t *testing.T) {
	lost := Failure{Reason: backupsv1alpha1.ReasonDeadlineExceeded, Message: "no route"}
	never := Failure{Terminal: true, Reason: backupsv1alpha1.ReasonRecreateRefused, Message: "invalid"}
	at := func(s Seen, after time.Duration) Seen {
		return with(s, func(s *Seen) { s.Now = s.Deadline().Add(after) })
	}
	noQuorum := with(covered(), func(s *Seen) { s.Cluster.ClusterID, s.Members = "", nil })
	for _, c := range []struct {
		name    string
		seen    Seen
		row     string
		failure Failure
		over    bool
	}{
		{"the intent to roll back", at(noQuorum, 0), RowRollBack, lost, false},
		{"the intent to roll back, long after", at(noQuorum, 24*time.Hour), RowRollBack, lost, false},
		{"success", at(whole3(), 24*time.Hour), RowWhole, lost, false},
		{"the end of a restore that deleted nothing", at(captured(), time.Hour), RowExpiredReversible, lost, false},
		{"the fence", at(with(gone(), func(s *Seen) { s.Lock = LockFacts{} }), time.Minute), RowFenceAgain, lost, false},
		{"the suspension", at(with(gone(), func(s *Seen) { s.Release.Suspended = false }), time.Minute), RowSuspendAgain, lost, false},
		{"the recreation", at(gone(), lateTries-time.Second), RowRecreate, lost, false},
		{"the recreation, again and again", at(gone(), lateTries), RowRecreate, lost, true},
		{"the recreation, refused", at(gone(), 0), RowRecreate, never, true},
		{"the owners", at(with(whole3(), func(s *Seen) { s.Cluster.Owned = false }), time.Minute), RowOwn, lost, false},
		{"an alarm is no reason to wait", at(with(whole3(), func(s *Seen) {
			for i := range s.Members {
				s.Members[i].Etcd.Alarms = []string{"memberID:1 alarm:NOSPACE "}
			}
			s.Cluster.QuotaBytes = 1 << 30
		}), 0), RowDisarm, lost, true},
		{"the fence before the deletion", at(with(captured(), func(s *Seen) { s.Lock = LockFacts{Mine: true} }), 0), "", lost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decision{Action: ActionFence}
			if c.row != "" {
				d = Decide(c.seen)
				require.Equal(t, c.row, d.Row)
			}
			_, over := Overcome(c.seen, d, c.failure)
			require.Equal(t, c.over, over)
		})
	}
}

// A controller whose clock ran ahead when a restore started, or deleted, and was put right since: the deadline is still one.
func TestAClockThatRanAheadPutsOffNoDeadline(t *testing.T) {
	years := now.AddDate(10, 0, 0)
	begun := with(captured(), func(s *Seen) { s.Lock.Limit, s.Job.StartedAt = 24*time.Hour, years })
	require.False(t, begun.Expired())
	require.Equal(t, begun.Job.CreatedAt.Add(24*time.Hour+skew+begun.timeout()), begun.Deadline())
	right := with(gone(), func(s *Seen) { s.Lock.Limit = 24 * time.Hour })
	wrong := with(right, func(s *Seen) { s.Record.DeleteAt = years })
	require.False(t, wrong.Deadline().After(right.Deadline()))
	late := with(right, func(s *Seen) { s.Job.StartedAt = s.Job.CreatedAt.Add(24 * time.Hour) })
	require.Equal(t, late.Job.StartedAt.Add(late.timeout()), late.Deadline(), "it may have queued to the last")
}

// The record cannot be saved for a moment, just when the restored cluster is given up: it is given up all the same, and nothing half recorded is left.
func TestRollbackWhoseIntentIsNotSavedAtOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool {
		g.ops.off = g.ours() && !g.startsFromSafety()
		return g.ops.off && condition(j, "Whole") != ""
	})
	failures := 0
	g.fail = func(name string, _ client.Object) error {
		if name == "update ConfigMap" && failures < 3 {
			failures++
			return errors.New("etcdserver: request timed out")
		}
		return nil
	}
	g.late = time.Hour
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool {
		require.Nil(t, g.records()[0].Outcome)
		return g.startsFromSafety()
	})
	require.Equal(t, 3, failures)
	g.ops.off = false
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonRolledBack, condition(job, "Stalled"))
	require.True(t, g.startsFromSafety())
	require.Nil(t, g.suspended())
	require.Empty(t, g.records())
}

// The first member's Pod needs the snapshot's credentials for ever, so the end of a restore says so.
func TestSuccessNamesTheSecretInUse(t *testing.T) {
	s := whole3()
	require.NotContains(t, Decide(s).Outcome.Message, "Keep Secret")
	s.Members[1].Credentials = "creds"
	require.Contains(t, Decide(s).Outcome.Message, `Keep Secret "creds" for as long as member m2 lives`)
}
