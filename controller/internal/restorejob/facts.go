package restorejob

import (
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/quorum"
)

// Seen is everything that a decision is made from. It holds facts; time is one of them.
type Seen struct {
	Now time.Time
	// Awake is when this controller made its first pass.
	Awake     time.Time
	Job       JobFacts
	Namespace NamespaceFacts
	Lock      LockFacts
	// Request is read until the record exists: from then on the record says what was asked for.
	Request *RequestFacts
	Record  *RecordFacts
	Gates   Gates
	// Safety is the copy of the live cluster, and Quorum whether that one can serve.
	Safety SafetyFacts
	Quorum quorum.Verdict
	// Volumes of the live cluster that are to outlive it.
	Volumes VolumeFacts
	// Working tells that a step of the job is under way in the background.
	Working bool
	// Unfit tells why the proven snapshot cannot be restored into the captured cluster.
	Unfit *Problem
	// Release is nil where no HelmRelease is there.
	Release *ReleaseFacts
	// Cluster is nil where no EtcdCluster of that name is there.
	Cluster *ClusterFacts
	// Leftovers names what is left of a former cluster, with what holds it.
	Leftovers []string
	// Members of the recreated cluster.
	Members []MemberFacts
	// Read is whether a client can read from the recreated cluster.
	Read ReadFacts
	// Reported tells that the report is written, or that it cannot be.
	Reported bool
	// Consumers are the tenants' API servers, while they are being restarted.
	Consumers ConsumersFacts
	// SeedTrouble is what the Pods of the recreated cluster complain about.
	SeedTrouble string
}

// JobFacts is the RestoreJob itself.
type JobFacts struct {
	Deleting  bool
	Finalizer bool // ours
	// StockFinalizer is one of Cozystack's own driver. It is ours to remove, as that driver is off while this one runs.
	StockFinalizer bool
	Phase          backupsv1alpha1.RestoreJobPhase
	CreatedAt      time.Time
	StartedAt      time.Time // zero before the start
	// Announced is the digest of the captured cluster that the Captured condition shows.
	Announced string
	// Gone tells that the Deleted condition is true already.
	Gone bool
	// Reported tells that the Reported condition is true already.
	Reported bool
	// Serving tells that the Serving condition is true already.
	Serving bool
	// RollbackShown tells that the RolledBack condition is there already.
	RollbackShown bool
	// Trouble is the error that the last pass ended with; empty where it ended without one.
	Trouble string
}

// NamespaceFacts is the job's namespace.
type NamespaceFacts struct{ Terminating bool }

// Problem is why something cannot be used.
type Problem struct{ Reason, Message string }

// RequestFacts is what the job asks for.
type RequestFacts struct {
	BackupName string
	Timeout    time.Duration
	Options    *Problem // an option that is unknown or out of range
	Backup     *BackupFacts
	Target     string // spec.targetApplicationRef as group/kind/name; empty when absent
	Source     *Problem
	// SpecFrom tells where the spec to recreate comes from; empty when it was found nowhere.
	SpecFrom string
	Replicas int64
	Version  string
	// Restorable lists the etcd minors that the running operator can restore.
	Restorable []string
}

// BackupFacts is the Backup that is asked for.
type BackupFacts struct {
	Deleting    bool
	Phase       backupsv1alpha1.BackupPhase
	Application string // group/kind/name
	Etcd        bool   // the application is an Etcd of Cozystack's group
}

// RecordFacts is what the record says.
type RecordFacts struct {
	Timeout         time.Duration
	SHA256          string
	OldUID          string
	OldClusterID    string
	Revision        int64  // that the restored cluster has at least; 0 where nobody knows
	Keys            int64  // live ones in the snapshot; meaningful where a member's count is known
	PreparedKey     string // of the copy that was planned or made; empty where there is none, or no longer
	SuspendIntended bool
	DeleteIntended  bool
	DeleteAt        time.Time // of that intent
	GraceUntil      time.Time // the deadline of a controller that took over after it; zero without one
	Backup          string    // that is restored
	RollbackAt      time.Time // of the intent to roll back; zero without one
	Cause           string    // of the rollback
	HasRelease      bool
	WasSuspended    bool // by somebody else
	Parked          bool // spec.replicas of the captured cluster is 0
	DryRun          bool
	FromLive        bool // the captured cluster was there when the restore began
	KeepConsumers   bool
	// Superseded names a record that an earlier restore kept, and that this one's success has made out of date.
	Superseded string
	Outcome    *OutcomeFacts
	// Left names what an uninstall left behind that was waited for in vain.
	Left string
}

// OutcomeFacts is how the restore ends.
type OutcomeFacts struct {
	Succeeded, Resume, Keep bool
	Reason, Message         string
}

// Gates are the conditions that must hold before the deletion.
type Gates struct{ Proven, Prepared, SafetyCopied, Fenced bool }

// ReleaseFacts is the HelmRelease.
type ReleaseFacts struct {
	Name      string
	Deleting  bool
	Suspended bool
	Finalizer bool   // ours
	Marked    bool   // our mark says that the suspension is this job's
	Busy      bool   // in the middle of a Helm action
	Unsafe    string // why a restore must not rely on it
	// Helm names the Helm release, as namespace/name, while it is installed; empty where nothing is.
	Helm string
	// UninstallSince is when this controller let a release that is being deleted run again; zero before that. UninstallTime is what Flux then gets.
	UninstallSince time.Time
	UninstallTime  time.Duration
	Elsewhere      string // the release that manages the cluster from another namespace
}

// ClusterFacts is the EtcdCluster.
type ClusterFacts struct {
	UID        string
	Deleting   bool
	Finalizers []string
	CreatedAt  time.Time
	// Ours tells that this restore created it.
	Ours bool
	// Failed tells that this restore created it and is rolling back from it.
	Failed bool
	// Captured tells that the record holds it as it is now; meaningful before the deletion.
	Captured bool
	// StartsFrom is the key of the object that its data come from.
	StartsFrom string
	// Owned tells that its managed fields are as they should be; meaningful where Ours.
	Owned bool
	// DeadlineRaised tells that progressDeadlineSeconds is still the value that this restore needs.
	DeadlineRaised  bool
	ClusterID       string
	Replicas        int64
	ReadyMembers    int64
	Reconciled      bool // Progressing=False/Reconciled at the current generation
	BootstrapFailed string
	// QuotaBytes of its database.
	QuotaBytes int64
}

// MemberFacts is a member of the recreated cluster.
type MemberFacts struct {
	Name        string
	Ready       bool
	Voter       bool
	Credentials string // Secret that each Pod of it needs to start; empty for all but the first member
	Etcd        EtcdFacts
}

// ReadFacts is the outcome of reading a key as the DataStores' clients do, once the members agree.
type ReadFacts struct {
	Asked bool
	Error string
}

// EtcdFacts is what a member itself says.
type EtcdFacts struct {
	Asked     bool
	Error     string
	ClusterID string
	Revision  int64
	Hash      uint32
	HashKnown bool // of the same revision as the other members'
	Alarms    []string
	Learner   bool
	DBSize    int64 // bytes allocated
	// Keys that were live at the revision that the restored cluster started with.
	Keys      int64
	KeysKnown bool
}
