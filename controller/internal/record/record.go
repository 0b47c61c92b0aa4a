// Package record keeps what a restore must not forget: facts that vanish with the cluster it deletes, and the intents behind steps that must not be taken
// twice.
//
// A record is one ConfigMap per RestoreJob UID in the controller's own namespace. Nobody owns it and no tenant can reach it, so neither a foreground
// deletion of the tenant's objects nor an edit of theirs can take it away. It is no Secret, since an EtcdCluster's spec names Secrets and holds none; that
// way the controller needs no right to write Secrets. The captured object is stored compressed, because managed fields make it large and repetitive and a
// ConfigMap ends at 1 MiB.
package record

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FormatVersion of the records that this code writes. A record of a newer version is refused, not guessed at.
const FormatVersion = 1

// Step is an intent, recorded before the change it announces.
type Step string

// Steps of a restore, in their order.
const (
	StepSuspend  Step = "Suspend"     // the HelmRelease is about to be suspended
	StepKeep     Step = "KeepVolumes" // the volumes of the cluster are about to be kept beyond it
	StepDelete   Step = "Delete"      // the cluster is about to be deleted: the deletion of the RestoreJob changes nothing from here on
	StepRollback Step = "Rollback"    // the restored cluster has failed, and is about to be deleted for the safety copy
)

// Where a captured spec came from.
const (
	FromLive    = "LiveCluster"
	FromRecord  = "OlderRecord"
	FromBackup  = "Backup"
	FromRelease = "HelmRelease"
)

// Record is what a restore remembers.
type Record struct {
	FormatVersion int         `json:"formatVersion"`
	Job           Job         `json:"job"`
	Application   string      `json:"application"` // name of the application and of its EtcdCluster, in the job's namespace
	CreatedAt     metav1.Time `json:"createdAt"`

	// Source is the object in S3 that is restored.
	Source Source `json:"source"`
	// Revision that the snapshot holds at least; 0 means that nobody recorded it.
	Revision int64 `json:"revision,omitempty"`
	// EtcdVersion that the snapshot was taken with, where the Backup says so; empty otherwise.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// AllowOtherMinor accepts a snapshot of the minor before the cluster's, or of an unknown one.
	AllowOtherMinor bool `json:"allowOtherMinor,omitempty"`
	// TakenAt is the moment whose data the snapshot holds, as the Backup says.
	TakenAt metav1.Time `json:"takenAt,omitzero"`
	// DryRun stops the restore after its report.
	DryRun bool `json:"dryRun,omitempty"`
	// KeepConsumers leaves the tenants' API servers alone.
	KeepConsumers bool `json:"keepConsumers,omitempty"`
	// HighWater is the highest revision that the restore before this one knew of; 0 where there was none.
	HighWater int64 `json:"highWater,omitempty"`
	// Proof is what the source turned out to be; nil until it has passed.
	Proof *Proof `json:"proof,omitempty"`
	// Prepared is the copy that the cluster starts from; nil until it is planned.
	Prepared *Prepared `json:"prepared,omitempty"`
	// Findings is what the report says of the data; nil until the source has passed.
	Findings *Findings `json:"findings,omitempty"`
	// Unreported tells why there is no report; empty otherwise.
	Unreported string `json:"unreported,omitempty"`
	// Consumers are what is restarted after the restore; nil until they are listed.
	Consumers *Consumers `json:"consumers,omitempty"`
	// Strategy and Parameters are the source Backup's; a Backup of the safety copy has the same.
	Strategy   string            `json:"strategy,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// NoSafety tells that no safety copy is wanted.
	NoSafety bool `json:"noSafety,omitempty"`
	// Safety is the copy of the live cluster that was taken first; nil until it is decided on.
	Safety *Safety `json:"safety,omitempty"`
	// Rollback is set once the restore goes back to the safety copy.
	Rollback *Rollback `json:"rollback,omitempty"`
	// KeepVolumesSeconds is how long the former cluster's volumes outlive it; 0 means that they do not.
	KeepVolumesSeconds int64 `json:"keepVolumesSeconds,omitempty"`
	// Volumes are those that are kept, and KeptUntil when that ends; known once StepKeep is recorded.
	Volumes   []Volume     `json:"volumes,omitempty"`
	KeptUntil *metav1.Time `json:"keptUntil,omitempty"`
	// TimeoutSeconds of the whole restore.
	TimeoutSeconds int64 `json:"timeoutSeconds"`
	// GraceUntil is the deadline that a controller set which took over after it had passed; nil until then. It is set once, and once more for a rollback.
	GraceUntil *metav1.Time `json:"graceUntil,omitempty"`

	// SpecFrom tells where Cluster came from.
	SpecFrom string `json:"specFrom"`
	// SHA256 of Cluster as stored, in hex.
	SHA256 string `json:"sha256"`
	// OldUID and OldClusterID identify the cluster that is replaced; empty where none was there.
	OldUID       types.UID `json:"oldUID,omitempty"`
	OldClusterID string    `json:"oldClusterID,omitempty"`
	// Supersedes is the name of the older record that Cluster came from.
	Supersedes string `json:"supersedes,omitempty"`

	// Release is the HelmRelease as it was before; nil where none was there.
	Release *Release `json:"release,omitempty"`
	// Steps holds the intents and when they were recorded.
	Steps map[Step]metav1.Time `json:"steps,omitempty"`
	// Outcome is set once it is decided how the restore ends.
	Outcome *Outcome `json:"outcome,omitempty"`

	// Left names what an uninstall left behind that was waited for in vain.
	Left string `json:"left,omitempty"`

	// Cluster is the captured object without what the API server owns.
	Cluster map[string]any `json:"-"`

	resourceVersion string
}

// Job identifies the RestoreJob.
type Job struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// Source is an object in S3.
type Source struct {
	Endpoint              string `json:"endpoint"`
	Bucket                string `json:"bucket"`
	Key                   string `json:"key"`
	Region                string `json:"region,omitempty"`
	ForcePathStyle        bool   `json:"forcePathStyle,omitempty"`
	CredentialsSecretName string `json:"credentialsSecretName"`
	SizeBytes             int64  `json:"sizeBytes,omitempty"` // as recorded at the backup; 0 where it was not
	Checksum              string `json:"checksum,omitempty"`  // sha256:<hex> as recorded; empty where it was not
}

// Release is a HelmRelease before a restore touched it.
type Release struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Suspend is the prior spec.suspend; nil means absent.
	Suspend *bool `json:"suspend,omitempty"`
}

// WasSuspended tells whether somebody else had suspended the release.
func (r *Release) WasSuspended() bool { return r != nil && r.Suspend != nil && *r.Suspend }

// Outcome is how a restore ends.
type Outcome struct {
	Succeeded bool   `json:"succeeded"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	// Resume tells whether the HelmRelease goes back to work.
	Resume bool `json:"resume"`
	// Keep tells that the record is the last place of the cluster's spec and stays for a later restore.
	Keep bool        `json:"keep,omitempty"`
	At   metav1.Time `json:"at"`
}

// Intended tells whether a step was recorded.
func (r *Record) Intended(s Step) bool {
	_, ok := r.Steps[s]
	return ok
}

// Intend records a step; the caller saves the record.
func (r *Record) Intend(s Step, at time.Time) {
	if r.Steps == nil {
		r.Steps = map[Step]metav1.Time{}
	}
	r.Steps[s] = metav1.NewTime(at)
}

// Name of the record of a RestoreJob.
func Name(job types.UID) string { return "restore-" + string(job) }
