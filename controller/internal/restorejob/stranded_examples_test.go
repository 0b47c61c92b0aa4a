package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// stranded is a restore that was to resume the release, while somebody deletes the cluster.
func stranded() Seen {
	return with(captured(), func(s *Seen) {
		s.Record.FromLive, s.Lock.FenceMine, s.Cluster.Deleting = true, true, true
		s.Record.Outcome = &OutcomeFacts{Resume: true, Reason: backupsv1alpha1.ReasonClusterDeleting, Message: "somebody deletes it"}
	})
}

func strandedCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, change func(*Seen)) decideCase {
		return decideCase{row, name, with(stranded(), change), verb, action, ""}
	}
	going := func(s *Seen) {
		s.Release.Deleting, s.Release.Helm, s.Release.UninstallTime = true, "t/etcd", 5*time.Minute
	}
	resumed := func(s *Seen) {
		going(s)
		s.Release.Suspended, s.Release.Marked, s.Release.UninstallSince = false, false, now
	}
	kept := func(s *Seen) { s.Record.Outcome = &OutcomeFacts{Resume: true, Keep: true, Reason: "x", Message: "y"} }
	return []decideCase{
		at(RowKeepRecord, "the spec is nowhere else", Intend, ActionKeepRecord, func(*Seen) {}),
		at(RowKeepRecord, "the cluster is gone", Intend, ActionKeepRecord, func(s *Seen) { s.Cluster = nil }),
		at(RowLeaveSuspended, "kept", Do, ActionLeaveSuspended, kept),
		at(RowLeaveSuspended, "where the spec came from it is still", Do, ActionLeaveSuspended, func(s *Seen) { s.Record.FromLive = false }),
		at(RowResume, "the application goes", Do, ActionResume, func(s *Seen) { s.Release.Deleting = true }),
		at(RowUninstall, "and Flux has not uninstalled it", Do, ActionUninstall, going),
		at(RowUninstall, "somebody has resumed it", Do, ActionUninstall, func(s *Seen) { going(s); s.Release.Suspended, s.Release.Marked = false, false }),
		at(RowUninstall, "the outcome left it suspended", Do, ActionUninstall, func(s *Seen) { going(s); s.Record.Outcome = &broken }),
		at(RowResume, "the outcome left it suspended, and the namespace goes", Do, ActionResume, func(s *Seen) { s.Record.Outcome, s.Namespace.Terminating = &broken, true }),
		at(RowAwaitUninstall, "it does", Wait, "", func(s *Seen) { resumed(s); s.Release.UninstallSince = now.Add(-4 * time.Minute) }),
		at(RowUninstallLeft, "it does not", Intend, ActionUninstallLeft, func(s *Seen) { resumed(s); s.Release.UninstallSince = now.Add(-5 * time.Minute) }),
		at(RowResume, "said so", Do, ActionResume, func(s *Seen) { resumed(s); s.Release.UninstallSince, s.Record.Left = now.Add(-time.Hour), "x" }),
		at(RowResume, "it is uninstalled", Do, ActionResume, func(s *Seen) { resumed(s); s.Release.Helm = "" }),
		at(RowResume, "an administrator keeps it suspended", Do, ActionResume, func(s *Seen) { going(s); s.Release.Marked = false }),
		at(RowResume, "the cluster stays", Do, ActionResume, func(s *Seen) { s.Cluster.Deleting = false }),
		at(RowFailed, "let go of", Fail, "", func(s *Seen) { kept(s); s.Release.Finalizer = false }),
	}
}

func TestTheEndNamesAReleaseThatStaysSuspended(t *testing.T) {
	s := with(stranded(), func(s *Seen) { s.Record.Outcome.Keep, s.Release.Finalizer = true, false })
	d := Decide(s)
	require.Equal(t, RowFailed, d.Row)
	require.Contains(t, d.Message, `HelmRelease "etcd" stays suspended`)
	require.Contains(t, d.Message, "delete lease")
	require.NotContains(t, Decide(with(s, func(s *Seen) { s.Release.Suspended = false })).Message, "suspended")
	won := with(s, func(s *Seen) {
		s.Record.Outcome = &OutcomeFacts{Succeeded: true, Resume: true, Keep: true, Reason: "x", Message: "y"}
	})
	require.Contains(t, Decide(won).Message, `HelmRelease "etcd" stays suspended`)
}
