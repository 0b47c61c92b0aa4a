package backupjob

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/quorum"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// flipRow negates the predicate of the row that FLIP_ROW names, so that a script can check that every row is held by a test.
func flipRow() {
	name := os.Getenv("FLIP_ROW")
	for i, row := range Rows {
		if row.Name == name {
			Rows[i].When = func(s Seen) bool { return !row.When(s) }
		}
	}
}

// ready is a started job that nothing hinders: the next step creates the snapshot.
func ready() Seen {
	return Seen{
		Now:         noon,
		Limits:      Limits{Deadline: 45 * time.Minute, Bootstrap: 30 * time.Minute, QuorumGrace: 2 * time.Minute, Quiet: 30 * time.Second, MaxRunning: 2, Queue: 24 * time.Hour},
		Job:         JobFacts{Phase: backupsv1alpha1.BackupJobRunning, CreatedAt: noon.Add(-time.Hour), StartedAt: noon.Add(-time.Minute), Blocker: "WaitingForSlot: full"},
		Resolution:  ResolutionFacts{State: Resolved, Class: "daily", Strategy: "s3"},
		Application: ApplicationFacts{Name: "etcd", Supported: true},
		Cluster:     ClusterFacts{Found: true, Replicas: 3, Quorum: quorum.Verdict{ReadyVoters: 2, Voters: 3, Needed: 2}},
		Credentials: CredentialsFacts{State: CredentialsUsable, Name: "creds"},
		Snapshot:    SnapshotFacts{Name: "nightly-0a1b2c3d"},
		Backup:      BackupFacts{Name: "nightly"},
	}
}

// following is a job whose snapshot is with the operator.
func following() Seen {
	s := ready()
	s.Snapshot.Requested, s.Snapshot.Exists, s.Snapshot.Ours = true, true, true
	s.Snapshot.CreatedAt, s.Snapshot.Phase = noon.Add(-time.Second), etcdv1alpha2.SnapshotStarted
	return s
}

// stored is a job whose snapshot is complete.
func stored() Seen {
	s := following()
	s.Snapshot.Phase, s.Snapshot.FinishedAt = etcdv1alpha2.SnapshotComplete, noon
	return s
}

type example struct {
	name   string
	seen   func() Seen
	row    string
	verb   Verb
	action Action
	reason string
	says   string
}

func with(base func() Seen, edits ...func(*Seen)) func() Seen {
	return func() Seen {
		s := base()
		for _, edit := range edits {
			edit(&s)
		}
		return s
	}
}

func late(s *Seen)                   { s.Job.StartedAt = noon.Add(-45 * time.Minute) }
func bootstrap(s *Seen)              { s.Job.StartedAt = noon.Add(-30 * time.Minute) }
func noStart(s *Seen)                { s.Job.StartedAt, s.Job.Phase = time.Time{}, "" }
func waitsForLock(s *Seen)           { s.Queue.Ahead = `RestoreJob "r" holds the lock` }
func noQuorum(s *Seen)               { s.Cluster.Quorum.ReadyVoters = 1 }
func state(r Resolution) func(*Seen) { return func(s *Seen) { s.Resolution.State = r } }

var examples = []example{
	{"a job that is being deleted is left alone", with(ready, func(s *Seen) { s.Job.Deleting = true }), RowDeleting, Skip, "", "", ""},
	{"C17f a failed job takes its unfinished snapshot away", with(following, func(s *Seen) { s.Job.Phase = backupsv1alpha1.BackupJobFailed }), RowCleanUp, Do, ActionDeleteSnapshot, "", ""},
	{"a snapshot on its way out is not deleted again", with(following, func(s *Seen) { s.Job.Phase = backupsv1alpha1.BackupJobFailed; s.Snapshot.Deleting = true }), RowFinished, Skip, "", "", ""},
	{"a failed job leaves somebody else's snapshot", with(following, func(s *Seen) { s.Job.Phase = backupsv1alpha1.BackupJobFailed; s.Snapshot.Ours = false }), RowFinished, Skip, "", "", ""},
	{"C17f a late success does not flip", with(stored, func(s *Seen) { s.Job.Phase = backupsv1alpha1.BackupJobFailed }), RowFinished, Skip, "", "", ""},
	{"a job that succeeded stays so", with(ready, func(s *Seen) { s.Job.Phase = backupsv1alpha1.BackupJobSucceeded }), RowFinished, Skip, "", "", ""},
	{"an unfinished snapshot is taken away before", with(following, func(s *Seen) { s.Job.Phase, s.Queue.Mine = backupsv1alpha1.BackupJobFailed, true }), RowCleanUp, Do, ActionDeleteSnapshot, "", ""},
	{"C33 a run that waits for the lock has not started", with(ready, noStart, waitsForLock), RowQueue, Wait, "", backupsv1alpha1.ReasonWaitingForLock, `RestoreJob "r"`},
	{"C33 it waits for a day", with(ready, noStart, waitsForLock, func(s *Seen) { s.Job.CreatedAt = noon.Add(-24 * time.Hour) }), RowQueueLimit, Fail, "", backupsv1alpha1.ReasonQueueLimitExceeded, `24h0m0s: RestoreJob "r"`},
	{"however old, it starts when the lock is free", with(ready, noStart, func(s *Seen) { s.Job.CreatedAt = noon.Add(-25 * time.Hour) }), RowStart, Intend, "", backupsv1alpha1.ReasonProgressing, ""},
	{"another driver's job", with(ready, noStart, waitsForLock, state(ForeignStrategy)), RowForeignStrategy, Skip, "", "", ""},
	{"another driver's run", with(ready, state(ForeignStrategy)), RowForeignStrategy, Skip, "", "", ""},
	{"C17d a class that is repointed while the run waits", with(ready, func(s *Seen) { s.Job.Ours = true }, state(ForeignStrategy)), RowRepointed, Fail, "", backupsv1alpha1.ReasonStrategyKindUnsupported, "WaitingForSlot: full"},
	{"C61 startedAt comes before all else", with(ready, noStart), RowStart, Intend, "", backupsv1alpha1.ReasonProgressing, ""},
	{"the clock starts although the class is missing", with(ready, noStart, state(ClassMissing)), RowStart, Intend, "", backupsv1alpha1.ReasonProgressing, ""},
	{"stored", with(stored, func(s *Seen) { s.Backup.Exists, s.Backup.Ours, s.Backup.Ready = true, true, true }), RowSucceeded, Succeed, "", backupsv1alpha1.ReasonSucceeded, "nightly"},
	{"C62 a Ready Backup is a success however late it is noticed", with(stored, late, func(s *Seen) {
		s.Snapshot.FinishedAt = noon
		s.Backup.Exists, s.Backup.Ours, s.Backup.Ready = true, true, true
	}), RowSucceeded, Succeed, "", backupsv1alpha1.ReasonSucceeded, ""},
	{"C17f the deadline ends the wait for the operator", with(following, late), RowDeadline, Fail, "", backupsv1alpha1.ReasonDeadlineExceeded, "45m"},
	{"C17a the deadline names the blocker", with(ready, late, func(s *Seen) { s.Credentials.State = CredentialsMissing }), RowDeadline, Fail, "", backupsv1alpha1.ReasonDeadlineExceeded, "WaitingForSlot: full"},
	{"a snapshot that was complete after the deadline is late", with(stored, late, func(s *Seen) { s.Snapshot.FinishedAt = noon.Add(time.Second) }), RowDeadline, Fail, "", backupsv1alpha1.ReasonDeadlineExceeded, ""},
	{"a startedAt of the future, from a wrong clock, keeps no run for ever", with(following, func(s *Seen) {
		s.Job.CreatedAt, s.Job.StartedAt = noon.Add(-24*time.Hour-45*time.Minute), noon.AddDate(1, 0, 0)
	}), RowDeadline, Fail, "", backupsv1alpha1.ReasonDeadlineExceeded, ""},
	{"a startedAt from before the creation, from a wrong clock, ends no run at once", with(ready, func(s *Seen) {
		s.Job.StartedAt = noon.AddDate(-1, 0, 0)
		s.Job.CreatedAt = noon.Add(-44 * time.Minute)
	}), RowCreateSnapshot, Do, ActionCreateSnapshot, backupsv1alpha1.ReasonSnapshotRunning, ""},
	{"C62 a snapshot that was complete in time is kept", with(stored, late, func(s *Seen) { s.Snapshot.FinishedAt = noon.Add(-time.Second) }), RowStoreBackup, Do, ActionCreateBackup, backupsv1alpha1.ReasonBackupCreated, ""},

	{"C61 a snapshot of somebody else is not adopted", with(following, func(s *Seen) { s.Snapshot.Ours = false }), RowSnapshotForeign, Fail, "", backupsv1alpha1.ReasonSnapshotForeign, "nightly-0a1b2c3d"},
	{"C17g the snapshot was deleted by hand", with(following, func(s *Seen) { s.Snapshot = SnapshotFacts{Name: "x", Requested: true} }), RowSnapshotGone, Fail, "", backupsv1alpha1.ReasonSnapshotGone, ""},
	{"C17g the snapshot is being deleted", with(following, func(s *Seen) { s.Snapshot.Deleting = true }), RowSnapshotGone, Fail, "", backupsv1alpha1.ReasonSnapshotGone, ""},
	{"a complete snapshot that is being deleted is still stored", with(stored, func(s *Seen) { s.Snapshot.Deleting = true }), RowStoreBackup, Do, ActionCreateBackup, backupsv1alpha1.ReasonBackupCreated, ""},
	{"the operator failed", with(following, func(s *Seen) {
		s.Snapshot.Phase, s.Snapshot.Detail = etcdv1alpha2.SnapshotFailed, "JobFailed: no luck"
	}), RowSnapshotFailed, Fail, "", backupsv1alpha1.ReasonSnapshotFailed, "JobFailed: no luck"},
	{"C18 the record proves nothing", with(stored, func(s *Seen) { s.Snapshot.Invalid = "no checksum" }), RowArtifactInvalid, Fail, "", backupsv1alpha1.ReasonArtifactInvalid, "no checksum"},
	{"the Backup's name was taken meanwhile", with(stored, func(s *Seen) { s.Backup.Exists = true }), RowBackupTaken, Fail, "", backupsv1alpha1.ReasonBackupExists, "nightly"},
	{"complete", stored, RowStoreBackup, Do, ActionCreateBackup, backupsv1alpha1.ReasonBackupCreated, ""},
	{"a Backup without status", with(stored, func(s *Seen) { s.Backup.Exists, s.Backup.Ours = true, true }), RowCompleteBackup, Do, ActionCompleteBackup, backupsv1alpha1.ReasonBackupCreated, ""},
	{"C17f a slow snapshot repeats the operator's words", with(following, func(s *Seen) {
		s.Snapshot.CreatedAt, s.Snapshot.Detail = noon.Add(-30*time.Second), "JobRunning: still at it"
	}), RowSnapshotSlow, Wait, "", backupsv1alpha1.ReasonSnapshotRunning, "JobRunning: still at it"},
	{"C17f a snapshot that nobody looks at", with(following, func(s *Seen) {
		s.Snapshot.CreatedAt, s.Snapshot.Phase = noon.Add(-time.Hour), ""
	}), RowSnapshotSlow, Wait, "", backupsv1alpha1.ReasonSnapshotPending, "does it run?"},
	{"with the operator", following, RowSnapshotRunning, Wait, "", backupsv1alpha1.ReasonSnapshotRunning, "nightly-0a1b2c3d"},
	{"C62 created, but the status was not written", with(following, func(s *Seen) { s.Snapshot.Requested = false }), RowSnapshotRunning, Wait, "", backupsv1alpha1.ReasonSnapshotRunning, ""},
	{"C17d a class that changes after the start changes nothing", with(following, state(ForeignStrategy)), RowSnapshotRunning, Wait, "", backupsv1alpha1.ReasonSnapshotRunning, ""},

	{"a Backup of that name is there before the start", with(ready, func(s *Seen) { s.Backup.Exists = true }), RowBackupExists, Fail, "", backupsv1alpha1.ReasonBackupExists, ""},
	{"C17b the class is awaited", with(ready, state(ClassMissing)), RowClassAwaited, Wait, "", backupsv1alpha1.ReasonWaitingForBackupClass, "daily"},
	{"C17b the class does not come", with(ready, bootstrap, state(ClassMissing)), RowClassNotFound, Fail, "", backupsv1alpha1.ReasonBackupClassNotFound, "daily"},
	{"C17c no row", with(ready, state(NoRow), func(s *Seen) { s.Resolution.Message = "no row for Etcd" }), RowNoMatch, Fail, "", backupsv1alpha1.ReasonNoMatchingStrategy, "no row for Etcd"},
	{"a strategy that nobody here runs", with(ready, state(UnsupportedStrategy)), RowUnsupported, Fail, "", backupsv1alpha1.ReasonStrategyKindUnsupported, "apiGroup strategy.backups.cozystack.io"},
	{"the strategy is awaited", with(ready, state(StrategyMissing)), RowStrategyAwaited, Wait, "", backupsv1alpha1.ReasonWaitingForStrategy, "s3"},
	{"the strategy does not come", with(ready, bootstrap, state(StrategyMissing)), RowStrategyNotFound, Fail, "", backupsv1alpha1.ReasonStrategyNotFound, "s3"},
	{"not an etcd", with(ready, func(s *Seen) { s.Application.Supported = false }), RowApplicationKind, Fail, "", backupsv1alpha1.ReasonApplicationUnsupported, "Etcd"},
	{"C60 the application is gone", with(ready, func(s *Seen) { s.Application.Gone = true }), RowApplicationGone, Fail, "", backupsv1alpha1.ReasonApplicationNotFound, "etcd"},
	{"C23 bad template", with(ready, func(s *Seen) { s.Destination = &Problem{backupsv1alpha1.ReasonTemplateInvalid, "no key x"} }), RowDestinationInvalid, Fail, "", backupsv1alpha1.ReasonTemplateInvalid, "no key x"},
	{"C37 bad destination", with(ready, func(s *Seen) { s.Destination = &Problem{backupsv1alpha1.ReasonDestinationInvalid, "no scheme"} }), RowDestinationInvalid, Fail, "", backupsv1alpha1.ReasonDestinationInvalid, "no scheme"},

	{"the cluster is awaited", with(ready, func(s *Seen) { s.Cluster = ClusterFacts{} }), RowClusterAwaited, Wait, "", backupsv1alpha1.ReasonClusterNotFound, ""},
	{"the cluster is going", with(ready, func(s *Seen) { s.Cluster.Deleting = true }), RowClusterDeleting, Fail, "", backupsv1alpha1.ReasonClusterDeleting, ""},
	{"C17e the cluster is parked", with(ready, func(s *Seen) { s.Cluster.Replicas = 0 }), RowClusterParked, Fail, "", backupsv1alpha1.ReasonClusterParked, "replicas 0"},
	{"C20 the loss is evident after a while", with(ready, noQuorum, func(s *Seen) {
		s.Cluster.Lost, s.Cluster.LostSince = etcdv1alpha2.ReasonQuorumLost, noon.Add(-2*time.Minute)
	}), RowQuorumLost, Fail, "", backupsv1alpha1.ReasonQuorumLost, "1 of 3 voters are ready, 2 are needed"},
	{"C20 a cluster that never came up is lost at once", with(ready, noQuorum, func(s *Seen) {
		s.Cluster.Lost, s.Cluster.LostSince = etcdv1alpha2.ReasonBootstrapFailed, noon
	}), RowQuorumLost, Fail, "", backupsv1alpha1.ReasonQuorumLost, ""},
	{"C20 a fresh loss may pass", with(ready, noQuorum, func(s *Seen) {
		s.Cluster.Lost, s.Cluster.LostSince = etcdv1alpha2.ReasonQuorumLost, noon.Add(-time.Minute)
	}), RowQuorumAwaited, Wait, "", backupsv1alpha1.ReasonWaitingForQuorum, "1 of 3 voters are ready, 2 are needed"},
	{"C20 no quorum, no complaint", with(ready, noQuorum), RowQuorumAwaited, Wait, "", backupsv1alpha1.ReasonWaitingForQuorum, ""},
	{"C20 a quorum decides, whatever the operator says", with(ready, func(s *Seen) {
		s.Cluster.Lost, s.Cluster.LostSince = etcdv1alpha2.ReasonQuorumLost, noon.Add(-time.Hour)
	}), RowCreateSnapshot, Do, ActionCreateSnapshot, backupsv1alpha1.ReasonSnapshotRunning, ""},
	{"C17a credentials are awaited", with(ready, func(s *Seen) { s.Credentials.State = CredentialsMissing }), RowCredentialsAwaited, Wait, "", backupsv1alpha1.ReasonWaitingForCredentials, "creds"},
	{"credentials without a key", with(ready, func(s *Seen) {
		s.Credentials.State, s.Credentials.Message = CredentialsInvalid, "key AWS_ACCESS_KEY_ID"
	}), RowCredentialsInvalid, Fail, "", backupsv1alpha1.ReasonCredentialsSecretInvalid, "AWS_ACCESS_KEY_ID"},
	{"C46 one at a time for an application", with(ready, waitsForLock), RowLockAwaited, Wait, "", backupsv1alpha1.ReasonWaitingForLock, `RestoreJob "r"`},
	{"C46 the limit over all applications", with(ready, func(s *Seen) { s.Queue.Running = 2 }), RowNoSlot, Wait, "", backupsv1alpha1.ReasonWaitingForSlot, "at most 2"},
	{"nothing is in the way", ready, RowCreateSnapshot, Do, ActionCreateSnapshot, backupsv1alpha1.ReasonSnapshotRunning, ""},
	{"no fact, no action", with(ready, func(s *Seen) { s.Credentials = CredentialsFacts{} }), RowNone, Wait, "", backupsv1alpha1.ReasonInternalError, ""},
}

func TestDecide(t *testing.T) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			d := Decide(e.seen())
			require.Equal(t, e.row, d.Row)
			require.Equal(t, e.verb, d.Verb)
			require.Equal(t, e.action, d.Action)
			require.Equal(t, e.reason, d.Reason)
			require.Contains(t, d.Message, e.says)
		})
	}
}

func TestEveryRowHasAnExample(t *testing.T) {
	for _, row := range Rows {
		require.True(t, slices.ContainsFunc(examples, func(e example) bool { return e.row == row.Name }), row.Name)
	}
}

// Whatever is seen, in whatever combination: a run that is over or not ours is left alone, nothing is created without every fact at hand, and no
// combination that observe can produce falls through the table.
func TestDecideIsTotal(t *testing.T) {
	for s := range combinations {
		d := Decide(s)
		if s.Job.Deleting || s.Job.Phase == backupsv1alpha1.BackupJobSucceeded {
			require.Equal(t, Skip, d.Verb)
		}
		if s.Job.Phase == backupsv1alpha1.BackupJobFailed {
			require.Contains(t, []Action{ActionNone, ActionDeleteSnapshot}, d.Action)
			require.Contains(t, []Verb{Skip, Do}, d.Verb)
		}
		if d.Action == ActionCreateSnapshot {
			require.True(t, s.started() && !s.Snapshot.Exists && !s.Snapshot.Requested && (!s.Backup.Exists || s.Backup.Ours), "%+v", s)
			require.True(t, s.Resolution.State == Resolved && s.Cluster.Quorum.CanServe() && s.Now.Before(s.deadline()), "%+v", s)
		}
		if d.Verb == Succeed {
			require.True(t, s.Backup.Ours && s.Backup.Ready)
		}
		if d.Action == ActionCreateBackup {
			require.True(t, s.complete() && s.Snapshot.Invalid == "")
		}
		require.NotEqual(t, RowNone, d.Row, "%+v", s)
	}
}

// combinations yields the product of small domains of the facts.
func combinations(yield func(Seen) bool) {
	phases := []backupsv1alpha1.BackupJobPhase{"", backupsv1alpha1.BackupJobRunning, backupsv1alpha1.BackupJobSucceeded, backupsv1alpha1.BackupJobFailed}
	starts := []time.Time{{}, noon.Add(-time.Minute), noon.Add(-31 * time.Minute), noon.Add(-time.Hour)}
	states := []Resolution{ClassMissing, NoRow, ForeignStrategy, UnsupportedStrategy, StrategyMissing, Resolved}
	snapshots := []SnapshotFacts{{}, {Requested: true}}
	for _, phase := range []etcdv1alpha2.EtcdSnapshotPhase{"", etcdv1alpha2.SnapshotPending, etcdv1alpha2.SnapshotStarted, etcdv1alpha2.SnapshotComplete, etcdv1alpha2.SnapshotFailed, "Unheard-of"} {
		for bits := range 8 {
			s := SnapshotFacts{Exists: true, Phase: phase, Requested: bits&1 != 0, Ours: bits&2 != 0, Deleting: bits&4 != 0, CreatedAt: noon, FinishedAt: noon.Add(-2 * time.Hour)}
			snapshots = append(snapshots, s)
		}
	}
	for _, phase := range phases {
		for _, start := range starts {
			for _, state := range states {
				for _, snapshot := range snapshots {
					for bits := range 32 {
						s := ready()
						s.Job.Phase, s.Job.StartedAt, s.Resolution.State, s.Snapshot = phase, start, state, snapshot
						s.Job.Deleting = bits == 31
						s.Backup.Exists, s.Backup.Ours, s.Backup.Ready = bits&1 != 0, bits&2 != 0, bits&4 != 0
						if bits&8 != 0 {
							s.Cluster.Quorum.ReadyVoters = 0
						}
						if bits&16 != 0 {
							s.Snapshot.Invalid = "bad"
						}
						if !yield(s) {
							return
						}
					}
				}
			}
		}
	}
}

// The page lists the rows of the table, in its order.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("STATES.md")
	require.NoError(t, err)
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	var rows []string
	for _, row := range Rows {
		rows = append(rows, row.Name)
	}
	require.Equal(t, rows, listed, "STATES.md lists other rows than the table, or in another order")
	for _, e := range examples {
		if e.reason != "" && e.row != RowNone {
			require.True(t, strings.Contains(string(page), e.reason), "STATES.md does not name reason %s", e.reason)
		}
	}
}
