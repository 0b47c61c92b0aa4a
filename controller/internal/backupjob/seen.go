package backupjob

import (
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/quorum"
)

// Seen is everything that a decision rests on: facts about one BackupJob at one moment. What was not looked at is zero; observe looks only as far as a
// decision can depend on it.
type Seen struct {
	Now         time.Time
	Limits      Limits
	Job         JobFacts
	Resolution  ResolutionFacts
	Application ApplicationFacts
	Destination *Problem // nil: rendered and valid
	Cluster     ClusterFacts
	Credentials CredentialsFacts
	Queue       QueueFacts
	Snapshot    SnapshotFacts
	Backup      BackupFacts
}

// Limits are the times and numbers that bound a run.
type Limits struct {
	Deadline    time.Duration // of the whole run, from startedAt
	Bootstrap   time.Duration // how long a class or strategy may be absent, from startedAt
	QuorumGrace time.Duration // how long the operator must have reported a lost quorum before it counts as evident
	Queue       time.Duration // how long a run may wait for the lock before it starts, from the creation of its job
	Quiet       time.Duration // how long a snapshot may take before the operator's own words are repeated
	MaxRunning  int           // snapshots under way at once, over all namespaces
}

// JobFacts are about the BackupJob itself.
type JobFacts struct {
	Deleting  bool
	Phase     backupsv1alpha1.BackupJobPhase
	CreatedAt time.Time
	StartedAt time.Time // zero: not started
	Ours      bool      // this controller has written its status
	Blocker   string    // what its last Ready condition said
}

// Resolution tells how far class and strategy led.
type Resolution string

// Resolutions.
const (
	ClassMissing        Resolution = "ClassMissing"
	NoRow               Resolution = "NoRow"
	ForeignStrategy     Resolution = "ForeignStrategy"     // of another API group: another driver's job
	UnsupportedStrategy Resolution = "UnsupportedStrategy" // of our group, but not Etcd
	StrategyMissing     Resolution = "StrategyMissing"
	Resolved            Resolution = "Resolved"
)

// ResolutionFacts are about class and strategy.
type ResolutionFacts struct {
	State    Resolution
	Class    string
	Strategy string
	Message  string // of NoRow
}

// ApplicationFacts are about the application object.
type ApplicationFacts struct {
	Name      string
	Supported bool // Etcd of apps.cozystack.io
	Gone      bool // nothing of it is there: neither the object nor a release nor a cluster
}

// Problem is a reason with its message.
type Problem struct{ Reason, Message string }

// ClusterFacts are about the EtcdCluster and its members.
type ClusterFacts struct {
	Found    bool
	Deleting bool
	Replicas int32
	Quorum   quorum.Verdict
	// Lost is the operator's reason why the cluster cannot serve, since LostSince; empty while it reports none.
	Lost      string
	LostSince time.Time
}

// CredentialsState tells what is known of the Secret.
type CredentialsState string

// States of the Secret with the S3 credentials.
const (
	CredentialsUnknown CredentialsState = ""
	CredentialsMissing CredentialsState = "Missing"
	CredentialsInvalid CredentialsState = "Invalid"
	CredentialsUsable  CredentialsState = "Usable"
)

// CredentialsFacts are about the Secret with the S3 credentials.
type CredentialsFacts struct {
	State   CredentialsState
	Name    string
	Message string // of Invalid; never a value
}

// QueueFacts are about other runs.
type QueueFacts struct {
	Mine    bool   // this run holds the lock of the application
	Ahead   string // who holds it, or is served first
	Running int    // snapshots under way, over all namespaces
}

// SnapshotFacts are about the job's EtcdSnapshot.
type SnapshotFacts struct {
	Name       string
	Requested  bool // the job's status says that it was created
	Exists     bool // confirmed without a cache where it was requested
	Ours       bool // controlled by this job's UID
	Deleting   bool
	CreatedAt  time.Time
	Phase      etcdv1alpha2.EtcdSnapshotPhase
	Detail     string    // the operator's reason and message
	FinishedAt time.Time // zero: not finished, or unknown
	Invalid    string    // what is wrong with the record of a complete snapshot
}

// BackupFacts are about the Backup of the job's name.
type BackupFacts struct {
	Name   string
	Exists bool
	Ours   bool // holds this job's snapshot
	Ready  bool
}

func (s Seen) deadline() time.Time { return s.start().Add(s.Limits.Deadline) }

// skew is how far the clocks of the controller and of the API server may be apart without a word.
const skew = 5 * time.Minute

// start is startedAt, as far as the API server's clock bears it out: a run starts between its creation and the end of its queue. A controller whose clock was
// wrong when it wrote startedAt neither ends a run at once nor keeps it for ever.
func (s Seen) start() time.Time {
	switch at := s.Job.StartedAt; {
	case s.Job.CreatedAt.IsZero():
		return at
	case at.Before(s.Job.CreatedAt.Add(-skew)):
		return s.Job.CreatedAt
	case at.After(s.queueEnd()):
		return s.queueEnd()
	default:
		return at
	}
}

func (s Seen) started() bool { return !s.Job.StartedAt.IsZero() }

// queued tells that the run has to wait for the lock before it starts.
func (s Seen) queued() bool { return !s.started() && s.Queue.Ahead != "" }

func (s Seen) queueEnd() time.Time { return s.Job.CreatedAt.Add(s.Limits.Queue) }

// bootstrapping tells that a class or strategy that is absent may still come.
func (s Seen) bootstrapping() bool { return s.Now.Before(s.start().Add(s.Limits.Bootstrap)) }

// following tells that the run is past the creation of its snapshot.
func (s Seen) following() bool { return s.Snapshot.Requested || s.Snapshot.Exists }

// reachable tells that there is a cluster to look at and a place to store its snapshot.
func (s Seen) reachable() bool {
	return s.Application.Supported && !s.Application.Gone && s.Cluster.Found && s.Destination == nil
}

func (s Seen) complete() bool {
	return s.Snapshot.Exists && s.Snapshot.Ours && s.Snapshot.Phase == etcdv1alpha2.SnapshotComplete
}

func (s Seen) unfinished() bool {
	return s.Snapshot.Exists && s.Snapshot.Phase != etcdv1alpha2.SnapshotComplete && s.Snapshot.Phase != etcdv1alpha2.SnapshotFailed
}

// inTime tells that the snapshot was complete before the deadline: a controller that was away meanwhile does not throw it away.
func (s Seen) inTime() bool {
	return s.complete() && !s.Snapshot.FinishedAt.IsZero() && s.Snapshot.FinishedAt.Before(s.deadline())
}

// evidentlyLost tells that waiting for a quorum is in vain: the operator gave the cluster up, or has reported the loss for a while.
func (s Seen) evidentlyLost() bool {
	switch s.Cluster.Lost {
	case "":
		return false
	case etcdv1alpha2.ReasonBootstrapFailed:
		return true
	default:
		return !s.Now.Before(s.Cluster.LostSince.Add(s.Limits.QuorumGrace))
	}
}
