package restorejob

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
)

func reconsiderCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, reason}
	}
	old := func(s *Seen) { s.Record.DeleteAt = now.Add(-freshIntent) }
	late := now.Add(2 * time.Hour)
	failed := func(s *Seen) { s.Cluster = &ClusterFacts{UID: "failed", Failed: true, Owned: true} }
	leftovers := func(s *Seen) { s.Now, s.Leftovers = late, []string{"PersistentVolumeClaim data-x"} }
	return []decideCase{
		at(RowReconsider, "the controller was away", Intend, ActionReconsider, backupsv1alpha1.ReasonDeleting, deleted(), old),
		at(RowReconsider, "for hours", Intend, ActionReconsider, "", deleted(), func(s *Seen) { s.Now, s.Awake = late, late }),
		at(RowReconsider, "edited just before", Intend, ActionReconsider, "", deleted(), func(s *Seen) { s.Cluster.Captured = false }),
		at(RowReconsider, "a short deadline", Intend, ActionReconsider, "", deleted(), func(s *Seen) {
			s.Record.Timeout, s.Record.DeleteAt = 10*time.Second, now.Add(-11*time.Second)
		}),
		at(RowReconsider, "C60 namespace goes, and nothing was deleted", Intend, ActionReconsider, "", deleted(), func(s *Seen) { s.Namespace.Terminating = true }),
		at(RowReconsider, "release goes, and nothing was deleted", Intend, ActionReconsider, "", deleted(), func(s *Seen) { s.Release.Deleting = true }),
		at(RowReconsider, "before anything is suspended or fenced again", Intend, ActionReconsider, "", deleted(), func(s *Seen) {
			old(s)
			s.Lock, s.Release.Suspended = LockFacts{}, false
		}),
		at(RowDelete, "the intent is fresh, although the deadline has just passed", Do, ActionDelete, "", deleted(), func(s *Seen) {
			s.Job.StartedAt = now.Add(-time.Hour)
		}),
		at(RowWaitGone, "the deletion is under way, and cannot be taken back", Wait, "", "", deleted(), func(s *Seen) {
			old(s)
			s.Cluster.Deleting = true
		}),
		at(RowForeign, "somebody else's cluster, whatever the intent's age", Intend, ActionConclude, "", deleted(), func(s *Seen) {
			old(s)
			s.Cluster.UID = "x"
		}),
		at(RowWaitGone, "deleted at the last moment", Wait, "", "", gone(), func(s *Seen) {
			leftovers(s)
			s.Record.DeleteAt = late.Add(-graceAfterRecreate + time.Second)
		}),
		at(RowExpiredDeleting, "ten minutes later", Intend, ActionConclude, backupsv1alpha1.ReasonDeadlineExceeded, gone(), func(s *Seen) {
			leftovers(s)
			s.Record.DeleteAt = late.Add(-graceAfterRecreate)
		}),
		at(RowExtend, "a controller that takes over gives it time", Intend, ActionExtend, "", gone(), func(s *Seen) {
			leftovers(s)
			s.Awake = late.Add(-time.Minute)
		}),
		at(RowWaitGone, "which is recorded", Wait, "", "", gone(), func(s *Seen) {
			leftovers(s)
			s.Record.GraceUntil = late.Add(time.Minute)
		}),
		at(RowExpiredDeleting, "and over for one that died and took over again", Intend, ActionConclude, "", gone(), func(s *Seen) {
			leftovers(s)
			s.Awake, s.Record.GraceUntil = late, late
		}),
		at(RowExpiredDeleting, "a controller that was there all the time gives none", Intend, ActionConclude, "", gone(), func(s *Seen) {
			leftovers(s)
			s.Awake = late.Add(-graceAfterRecreate)
		}),
		at(RowExtend, "a rollback that nobody carried out for hours", Intend, ActionExtend, "", returning(), func(s *Seen) {
			failed(s)
			s.Now, s.Awake = late, late
		}),
		at(RowWaitGone, "and then the failed one has time to go", Wait, "", "", returning(), func(s *Seen) {
			failed(s)
			s.Now, s.Record.GraceUntil, s.Cluster.Deleting = late, late.Add(9*time.Minute), true
		}),
		at(RowExpiredReversible, "before the intent, taking over gives no time", Intend, ActionConclude, "", captured(), func(s *Seen) {
			s.Now, s.Awake = late, late
		}),
	}
}

// away lets the controller die before its first try to delete the cluster, and come back that much later.
func (g *rig) away(d time.Duration, meanwhile func()) {
	died := false
	g.fail = func(name string, _ client.Object) error {
		if name != "delete EtcdCluster" || died {
			return nil
		}
		died, g.late, g.background = true, d, NewBackground()
		meanwhile()
		return errors.New("killed")
	}
}

func TestAControllerThatComesBackAfterTheDeadlineDeletesNothing(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	g.away(time.Hour, func() {})
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDeadlineExceeded, condition(job, "Stalled"))
	require.Contains(t, job.Status.Message, "the cluster was left as it is")
	require.Empty(t, condition(job, "Deleted"))
	require.Nil(t, g.suspended())
	require.NotContains(t, g.writes, "delete EtcdCluster")
	g.untouched(before)
}

// What happened to the cluster while nobody looked is not lost: the edited spec comes back, from a copy that is ahead of every revision.
func TestAControllerThatComesBackLooksAtEverythingAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.uncovered("again")
	live := int64(1000)
	g.answers = func(_ string, s etcd.Status) (etcd.Status, error) {
		if s.Revision == 1000 {
			s.Revision = live
		}
		return s, nil
	}
	g.away(5*time.Minute, func() {
		live = 5_000_000
		g.patchCluster(`{"spec":{"options":{"snapshotCount":4321}}}`)
	})
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	count, _ := number(g.cluster().Object, "spec", "options", "snapshotCount")
	require.EqualValues(t, 4321, count)
	revision, _ := g.revisions.Load(clusterFacts(g.cluster(), "").StartsFrom)
	require.Greater(t, revision, live)
}

func TestADeletionThatBeginsLateHasTimeToEnd(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.fail = func(name string, _ client.Object) error {
		if name == "patch HelmRelease" && g.late == 0 {
			g.late = 700 * time.Second // of 900
		}
		return nil
	}
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	g.late = 1100 * time.Second
	for range 3 {
		_, err := g.once("again")
		require.NoError(t, err)
	}
	require.Equal(t, backupsv1alpha1.RestoreJobRunning, g.job("again").Status.Phase)
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}

func TestRollbackGoesOnHoweverLateTheControllerComesBack(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.seedFails(false)
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return condition(j, "RolledBack") != "" })
	g.late, g.background = 5*time.Hour, NewBackground()
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonRolledBack, condition(job, "Stalled"))
	require.True(t, g.startsFromSafety())
	require.Nil(t, g.suspended())
}

// Every minute the controller dies, and a hung deletion ends all the same.
func TestAControllerThatDiesAgainAndAgainDoesNotPutOffTheEnd(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	g.late, g.background = 20*time.Minute, NewBackground() // of 15
	job := g.run("again", func(j *backupsv1alpha1.RestoreJob) bool {
		g.late, g.background = g.late+time.Minute, NewBackground()
		require.Less(t, g.late, 40*time.Minute)
		return j.Status.Phase.Terminal()
	})
	require.Equal(t, "True/"+backupsv1alpha1.ReasonDeadlineExceeded, condition(job, "Stalled"))
	require.GreaterOrEqual(t, g.late, 30*time.Minute, "it had its time once")
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
}
