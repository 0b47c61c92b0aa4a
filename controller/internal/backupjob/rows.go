package backupjob

import (
	"fmt"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// Times between two looks where a watch is only expected, and where there is none: Secrets are never watched.
const (
	recheck            = 30 * time.Second
	recheckCredentials = 15 * time.Second
)

// Names of the rows.
const (
	RowNone               = "None"
	RowDeleting           = "Deleting"
	RowCleanUp            = "CleanUp"
	RowFinished           = "Finished"
	RowForeignStrategy    = "ForeignStrategy"
	RowQueueLimit         = "QueueLimit"
	RowQueue              = "Queue"
	RowStart              = "Start"
	RowSucceeded          = "Succeeded"
	RowDeadline           = "Deadline"
	RowSnapshotForeign    = "SnapshotForeign"
	RowSnapshotGone       = "SnapshotGone"
	RowSnapshotFailed     = "SnapshotFailed"
	RowArtifactInvalid    = "ArtifactInvalid"
	RowBackupTaken        = "BackupTaken"
	RowStoreBackup        = "StoreBackup"
	RowCompleteBackup     = "CompleteBackup"
	RowSnapshotSlow       = "SnapshotSlow"
	RowSnapshotRunning    = "SnapshotRunning"
	RowBackupExists       = "BackupExists"
	RowClassAwaited       = "ClassAwaited"
	RowClassNotFound      = "ClassNotFound"
	RowNoMatch            = "NoMatch"
	RowRepointed          = "Repointed"
	RowUnsupported        = "UnsupportedStrategy"
	RowStrategyAwaited    = "StrategyAwaited"
	RowStrategyNotFound   = "StrategyNotFound"
	RowApplicationKind    = "ApplicationKind"
	RowApplicationGone    = "ApplicationGone"
	RowDestinationInvalid = "DestinationInvalid"
	RowClusterAwaited     = "ClusterAwaited"
	RowClusterDeleting    = "ClusterDeleting"
	RowClusterParked      = "ClusterParked"
	RowQuorumLost         = "QuorumLost"
	RowQuorumAwaited      = "QuorumAwaited"
	RowCredentialsAwaited = "CredentialsAwaited"
	RowCredentialsInvalid = "CredentialsInvalid"
	RowLockAwaited        = "LockAwaited"
	RowNoSlot             = "NoSlot"
	RowCreateSnapshot     = "CreateSnapshot"
)

// Rows is the table of states, in the order in which they are tried. A run that queues for the lock has not started.
var Rows = concat(finalRows, followingRows, resolvingRows, clusterRows)

func concat(parts ...[]Row) []Row {
	var all []Row
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// finalRows concern runs that are over, not ours, or not begun. Success stands before the deadline: where a Ready Backup exists the run has succeeded,
// however late its status is written.
var finalRows = []Row{
	{RowDeleting, func(s Seen) bool { return s.Job.Deleting }, skip},
	{RowCleanUp, func(s Seen) bool {
		return s.Job.Phase == backupsv1alpha1.BackupJobFailed && s.unfinished() && s.Snapshot.Ours && !s.Snapshot.Deleting
	}, cleanUp},
	{RowFinished, func(s Seen) bool { return s.Job.Phase.Terminal() }, skip},
	{RowForeignStrategy, func(s Seen) bool {
		return s.Resolution.State == ForeignStrategy && !s.following() && (!s.started() || !s.Job.Ours)
	}, skip},
	{RowQueueLimit, func(s Seen) bool { return s.queued() && !s.Now.Before(s.queueEnd()) }, queueLimit},
	{RowQueue, Seen.queued, queue},
	{RowStart, func(s Seen) bool { return !s.started() }, start},
	{RowSucceeded, func(s Seen) bool { return s.Backup.Exists && s.Backup.Ours && s.Backup.Ready }, succeed},
	{RowDeadline, func(s Seen) bool { return !s.Now.Before(s.deadline()) && !s.inTime() }, expire},
}

// followingRows apply from the creation of the snapshot on. Class, strategy and cluster no longer matter: the run ends where it began.
var followingRows = []Row{
	{RowSnapshotForeign, func(s Seen) bool { return s.Snapshot.Exists && !s.Snapshot.Ours }, snapshotForeign},
	{RowSnapshotGone, func(s Seen) bool {
		return s.Snapshot.Requested && !s.Snapshot.Exists || s.Snapshot.Deleting && !s.complete()
	}, snapshotGone},
	{RowSnapshotFailed, func(s Seen) bool { return s.Snapshot.Phase == etcdv1alpha2.SnapshotFailed }, snapshotFailed},
	{RowArtifactInvalid, func(s Seen) bool { return s.complete() && s.Snapshot.Invalid != "" }, artifactInvalid},
	{RowBackupTaken, func(s Seen) bool { return s.complete() && s.Backup.Exists && !s.Backup.Ours }, backupExists},
	{RowStoreBackup, func(s Seen) bool { return s.complete() && !s.Backup.Exists }, storeBackup},
	{RowCompleteBackup, func(s Seen) bool { return s.complete() && s.Backup.Exists }, completeBackup},
	{RowSnapshotSlow, func(s Seen) bool { return s.Snapshot.Exists && !s.Now.Before(s.Snapshot.CreatedAt.Add(s.Limits.Quiet)) }, snapshotSlow},
	{RowSnapshotRunning, func(s Seen) bool { return s.Snapshot.Exists }, snapshotRunning},
}

// resolvingRows concern what an administrator wrote.
var resolvingRows = []Row{
	{RowBackupExists, func(s Seen) bool { return s.Backup.Exists && !s.Backup.Ours }, backupExists},
	{RowClassAwaited, func(s Seen) bool { return s.Resolution.State == ClassMissing && s.bootstrapping() }, classAwaited},
	{RowClassNotFound, func(s Seen) bool { return s.Resolution.State == ClassMissing }, classNotFound},
	{RowNoMatch, func(s Seen) bool { return s.Resolution.State == NoRow }, noMatch},
	{RowRepointed, func(s Seen) bool { return s.Resolution.State == ForeignStrategy }, repointed},
	{RowUnsupported, func(s Seen) bool { return s.Resolution.State == UnsupportedStrategy }, unsupported},
	{RowStrategyAwaited, func(s Seen) bool { return s.Resolution.State == StrategyMissing && s.bootstrapping() }, strategyAwaited},
	{RowStrategyNotFound, func(s Seen) bool { return s.Resolution.State == StrategyMissing }, strategyNotFound},
	{RowApplicationKind, func(s Seen) bool { return !s.Application.Supported }, applicationKind},
	{RowApplicationGone, func(s Seen) bool { return s.Application.Gone }, applicationGone},
	{RowDestinationInvalid, func(s Seen) bool { return s.Destination != nil }, destinationInvalid},
}

// clusterRows concern the application's cluster and its place in the queue. The last one acts, so each before it has to be false.
var clusterRows = []Row{
	{RowClusterAwaited, func(s Seen) bool { return !s.Cluster.Found }, clusterAwaited},
	{RowClusterDeleting, func(s Seen) bool { return s.Cluster.Deleting }, clusterDeleting},
	{RowClusterParked, func(s Seen) bool { return s.Cluster.Replicas == 0 }, clusterParked},
	{RowQuorumLost, func(s Seen) bool { return !s.Cluster.Quorum.CanServe() && s.evidentlyLost() }, quorumLost},
	{RowQuorumAwaited, func(s Seen) bool { return !s.Cluster.Quorum.CanServe() }, quorumAwaited},
	{RowCredentialsAwaited, func(s Seen) bool { return s.Credentials.State == CredentialsMissing }, credentialsAwaited},
	{RowCredentialsInvalid, func(s Seen) bool { return s.Credentials.State == CredentialsInvalid }, credentialsInvalid},
	{RowLockAwaited, func(s Seen) bool { return s.Queue.Ahead != "" }, lockAwaited},
	{RowNoSlot, func(s Seen) bool { return s.Queue.Running >= s.Limits.MaxRunning }, noSlot},
	{RowCreateSnapshot, func(s Seen) bool { return s.Credentials.State == CredentialsUsable }, createSnapshot},
}

func wait(stage Stage, again time.Duration, reason, format string, args ...any) Decision {
	return Decision{Verb: Wait, Stage: stage, Recheck: again, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func fail(stage Stage, reason, format string, args ...any) Decision {
	return Decision{Verb: Fail, Stage: stage, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func do(stage Stage, a Action, reason, format string, args ...any) Decision {
	return Decision{Verb: Do, Stage: stage, Action: a, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
