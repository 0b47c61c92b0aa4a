// Package restorereport is the report of a RestoreJob: what a restore changes, for machines and for people. It is bounded, since a ConfigMap is, and holds
// prefixes of keys but neither keys nor values.
package restorereport

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// FormatVersion of report.json.
const FormatVersion = 1

// Keys of the ConfigMap.
const (
	KeyJSON = "report.json"
	KeyText = "report.txt"
)

// maxList bounds each list of names in a report.
const maxList = 200

// Report is what report.json holds.
type Report struct {
	FormatVersion int         `json:"formatVersion"`
	Namespace     string      `json:"namespace"`
	RestoreJob    string      `json:"restoreJob"`
	Application   string      `json:"application"`
	Backup        string      `json:"backup"`
	DryRun        bool        `json:"dryRun"`
	WrittenAt     metav1.Time `json:"writtenAt"`

	Snapshot Snapshot `json:"snapshot"`
	Live     Live     `json:"live"`
	// RevisionDistance is how many revisions the live cluster is ahead; absent where nothing answered.
	RevisionDistance *int64 `json:"revisionDistance,omitempty"`
	// Vanish and Appear are the changes in the set of keys; absent where nothing was compared.
	Vanish *record.Change `json:"vanish,omitempty"`
	Appear *record.Change `json:"appear,omitempty"`

	ControlPlanes ControlPlanes `json:"controlPlanes"`
	Fit           Fit           `json:"fit"`
	Downtime      Downtime      `json:"downtime"`
	// Consumers is absent until their restart has begun.
	Consumers *Consumers `json:"consumers,omitempty"`
}

// Snapshot is what would be restored.
type Snapshot struct {
	TakenAt     metav1.Time `json:"takenAt,omitzero"`
	EtcdVersion string      `json:"etcdVersion,omitempty"` // X.Y.Z where the Backup says so, else X.Y
	Revision    int64       `json:"revision"`
	Keys        int64       `json:"keys"`
	Bytes       int64       `json:"bytes"`       // of live keys and their values
	ObjectBytes int64       `json:"objectBytes"` // in S3
}

// Live is the cluster as it was when the report was written.
type Live struct {
	Member   string `json:"member,omitempty"` // the one that answered
	Revision int64  `json:"revision,omitempty"`
	Keys     int64  `json:"keys,omitempty"`
	Error    string `json:"error,omitempty"` // why nothing was compared
}

// ControlPlanes are the TenantControlPlanes that refer to a DataStore on this etcd.
type ControlPlanes struct {
	DataStores []string `json:"dataStores,omitempty"`
	// Error tells why they are not known.
	Error    string `json:"error,omitempty"`
	Affected Names  `json:"affected"` // all of them
	// Lost have no key in the snapshot: they are empty after the restore.
	Lost Names `json:"lost"`
	// Replaced were created after the snapshot, in the place of an older one whose data come back.
	Replaced Names `json:"replaced"`
	// Unknown could not be told, as the snapshot has more tenants than are listed.
	Unknown Names `json:"unknown"`
	// Deleted are first path segments of the snapshot's keys that belong to no TenantControlPlane now.
	Deleted Names `json:"deleted"`
}

// Names is a bounded list with the whole number.
type Names struct {
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

// Add counts a name, and lists it while there is room.
func (n *Names) Add(name string) {
	n.Count++
	if len(n.Names) < maxList {
		n.Names = append(n.Names, printable(name))
	}
}

// Fit tells whether the snapshot can be restored into the captured cluster.
type Fit struct {
	Fits    bool   `json:"fits"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	InUseBytes      int64  `json:"inUseBytes"` // of the snapshot's database
	QuotaBytes      int64  `json:"quotaBytes"` // 0 means etcd's own default
	VolumeBytes     int64  `json:"volumeBytes"`
	SnapshotVersion string `json:"snapshotVersion,omitempty"`
	ClusterVersion  string `json:"clusterVersion"`
	SnapshotAuth    bool   `json:"snapshotAuth"`
	ClusterAuth     bool   `json:"clusterAuth"`
}

// Downtime is how long the application's restores took before, from the moment the former cluster was gone until a member served the restored data.
type Downtime struct {
	Restores      int   `json:"restores"` // that were measured; 0 means that nothing is known
	LastSeconds   int64 `json:"lastSeconds,omitempty"`
	MedianSeconds int64 `json:"medianSeconds,omitempty"`
	MaxSeconds    int64 `json:"maxSeconds,omitempty"`
}

// Past is one restore that succeeded.
type Past struct {
	EndedAt  time.Time
	Downtime time.Duration
}
