package backupjob

import (
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
)

func skip(Seen) Decision { return Decision{Verb: Skip} }

func cleanUp(s Seen) Decision {
	return do(StageNone, ActionDeleteSnapshot, "", "EtcdSnapshot %q of the failed run is removed", s.Snapshot.Name)
}

func queueLimit(s Seen) Decision {
	return fail(StageQueue, backupsv1alpha1.ReasonQueueLimitExceeded, "the run could not start within %s: %s", s.Limits.Queue, s.Queue.Ahead)
}

func queue(s Seen) Decision {
	return wait(StageQueue, min(recheck, s.queueEnd().Sub(s.Now)), backupsv1alpha1.ReasonWaitingForLock, "%s", s.Queue.Ahead)
}

func start(Seen) Decision {
	return Decision{Verb: Intend, Reason: backupsv1alpha1.ReasonProgressing, Message: "the backup has started"}
}

func succeed(s Seen) Decision {
	return Decision{Verb: Succeed, Stage: StageStored, Reason: backupsv1alpha1.ReasonSucceeded, Message: "stored as Backup \"" + s.Backup.Name + "\""}
}

func expire(s Seen) Decision {
	return fail(StageNone, backupsv1alpha1.ReasonDeadlineExceeded, "not done within %s of its start; at last: %s", s.Limits.Deadline, s.Job.Blocker)
}

func snapshotForeign(s Seen) Decision {
	return fail(StageSnapshot, backupsv1alpha1.ReasonSnapshotForeign,
		"EtcdSnapshot %q exists and is not controlled by this BackupJob: remove it and create another BackupJob", s.Snapshot.Name)
}

func snapshotGone(s Seen) Decision {
	return fail(StageSnapshot, backupsv1alpha1.ReasonSnapshotGone, "EtcdSnapshot %q was deleted before its Backup was made: create another BackupJob", s.Snapshot.Name)
}

func snapshotFailed(s Seen) Decision {
	return fail(StageSnapshot, backupsv1alpha1.ReasonSnapshotFailed, "EtcdSnapshot %q failed: %s", s.Snapshot.Name, s.Snapshot.Detail)
}

func artifactInvalid(s Seen) Decision {
	return fail(StageSnapshot, backupsv1alpha1.ReasonArtifactInvalid, "%s", s.Snapshot.Invalid)
}

func backupExists(s Seen) Decision {
	return fail(StageNone, backupsv1alpha1.ReasonBackupExists,
		"Backup %q exists already and holds another snapshot: a Backup is never overwritten; give the BackupJob a name that is not taken", s.Backup.Name)
}

func storeBackup(s Seen) Decision {
	return do(StageNone, ActionCreateBackup, backupsv1alpha1.ReasonBackupCreated, "Backup %q is written", s.Backup.Name)
}

func completeBackup(s Seen) Decision {
	return do(StageNone, ActionCompleteBackup, backupsv1alpha1.ReasonBackupCreated, "the status of Backup %q is written", s.Backup.Name)
}

func snapshotSlow(s Seen) Decision {
	reason := backupsv1alpha1.ReasonSnapshotRunning
	if s.Snapshot.Phase == "" || s.Snapshot.Phase == "Pending" {
		reason = backupsv1alpha1.ReasonSnapshotPending
	}
	said := s.Snapshot.Detail
	if said == "" {
		said = "the etcd operator has said nothing about it yet: does it run?"
	}
	return wait(StageSnapshot, 0, reason, "EtcdSnapshot %q is still %s after %s: %s", s.Snapshot.Name, phaseName(s), s.Limits.Quiet, said)
}

func phaseName(s Seen) string {
	if s.Snapshot.Phase == "" {
		return "without a phase"
	}
	return string(s.Snapshot.Phase)
}

func snapshotRunning(s Seen) Decision {
	d := wait(StageSnapshot, 0, backupsv1alpha1.ReasonSnapshotRunning, "EtcdSnapshot %q is with the etcd operator", s.Snapshot.Name)
	d.Recheck = s.Snapshot.CreatedAt.Add(s.Limits.Quiet).Sub(s.Now)
	return d
}

func classAwaited(s Seen) Decision {
	return wait(StageResolving, 0, backupsv1alpha1.ReasonWaitingForBackupClass, "BackupClass %q does not exist: waiting for it, at most %s from the start",
		s.Resolution.Class, s.Limits.Bootstrap)
}

func classNotFound(s Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonBackupClassNotFound, "BackupClass %q did not appear within %s: name one that exists", s.Resolution.Class, s.Limits.Bootstrap)
}

func noMatch(s Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonNoMatchingStrategy, "%s", s.Resolution.Message)
}

func repointed(s Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonStrategyKindUnsupported, "BackupClass %q was changed while the run waited (%s), and leads to a strategy of another driver now: create another BackupJob",
		s.Resolution.Class, s.Job.Blocker)
}

func unsupported(s Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonStrategyKindUnsupported, "BackupClass %q leads to strategy %q, which is not of kind %s: this controller runs no other; write the row's strategyRef with apiGroup %s",
		s.Resolution.Class, s.Resolution.Strategy, strategyv1alpha1.EtcdKind, strategyv1alpha1.Group)
}

func strategyAwaited(s Seen) Decision {
	return wait(StageResolving, 0, backupsv1alpha1.ReasonWaitingForStrategy, "Etcd strategy %q, named by BackupClass %q, does not exist: waiting for it, at most %s from the start",
		s.Resolution.Strategy, s.Resolution.Class, s.Limits.Bootstrap)
}

func strategyNotFound(s Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonStrategyNotFound, "Etcd strategy %q, named by BackupClass %q, did not appear within %s",
		s.Resolution.Strategy, s.Resolution.Class, s.Limits.Bootstrap)
}

func applicationKind(Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonApplicationUnsupported,
		"spec.applicationRef: the Etcd strategy backs up kind %s of group %s only", backupsv1alpha1.EtcdApplicationKind, backupsv1alpha1.DefaultApplicationGroup)
}

func applicationGone(s Seen) Decision {
	return fail(StageResolving, backupsv1alpha1.ReasonApplicationNotFound, "spec.applicationRef.name: there is no etcd %q in this namespace", s.Application.Name)
}

func destinationInvalid(s Seen) Decision {
	return fail(StageResolving, s.Destination.Reason, "strategy %q: %s", s.Resolution.Strategy, s.Destination.Message)
}

func clusterAwaited(s Seen) Decision {
	return wait(StageResolved, 0, backupsv1alpha1.ReasonClusterNotFound, "EtcdCluster %q does not exist: waiting until the application is installed", s.Application.Name)
}

func clusterDeleting(s Seen) Decision {
	return fail(StageResolved, backupsv1alpha1.ReasonClusterDeleting, "EtcdCluster %q is being deleted", s.Application.Name)
}

func clusterParked(s Seen) Decision {
	return fail(StageResolved, backupsv1alpha1.ReasonClusterParked, "EtcdCluster %q is parked with spec.replicas 0: no member runs that could be asked for a snapshot", s.Application.Name)
}

func quorumLost(s Seen) Decision {
	return fail(StageResolved, backupsv1alpha1.ReasonQuorumLost, "EtcdCluster %q has no quorum (%s): %d of %d voters are ready, %d are needed",
		s.Application.Name, s.Cluster.Lost, s.Cluster.Quorum.ReadyVoters, s.Cluster.Quorum.Voters, s.Cluster.Quorum.Needed)
}

func quorumAwaited(s Seen) Decision {
	d := wait(StageResolved, recheck, backupsv1alpha1.ReasonWaitingForQuorum, "EtcdCluster %q cannot serve: %d of %d voters are ready, %d are needed",
		s.Application.Name, s.Cluster.Quorum.ReadyVoters, s.Cluster.Quorum.Voters, s.Cluster.Quorum.Needed)
	if s.Cluster.Lost != "" {
		d.Recheck = s.Cluster.LostSince.Add(s.Limits.QuorumGrace).Sub(s.Now)
	}
	return d
}

func credentialsAwaited(s Seen) Decision {
	return wait(StageResolved, recheckCredentials, backupsv1alpha1.ReasonWaitingForCredentials, "Secret %q with the S3 credentials does not exist in this namespace", s.Credentials.Name)
}

func credentialsInvalid(s Seen) Decision {
	return fail(StageResolved, backupsv1alpha1.ReasonCredentialsSecretInvalid, "Secret %q with the S3 credentials: %s", s.Credentials.Name, s.Credentials.Message)
}

func lockAwaited(s Seen) Decision {
	return wait(StageResolved, recheck, backupsv1alpha1.ReasonWaitingForLock, "%s", s.Queue.Ahead)
}

func noSlot(s Seen) Decision {
	return wait(StageResolved, recheck, backupsv1alpha1.ReasonWaitingForSlot, "%d snapshots are under way, at most %d may be", s.Queue.Running, s.Limits.MaxRunning)
}

func createSnapshot(s Seen) Decision {
	return do(StageSnapshot, ActionCreateSnapshot, backupsv1alpha1.ReasonSnapshotRunning, "EtcdSnapshot %q is with the etcd operator", s.Snapshot.Name)
}
