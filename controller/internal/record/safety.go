package record

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Safety is the copy of the live cluster that a restore can go back to. It is recorded before anything of it is made.
type Safety struct {
	// ClusterUID is the live cluster that the section is about; empty where none was there.
	ClusterUID types.UID `json:"clusterUID,omitempty"`
	// Skipped says why there is no copy; empty where there is to be one.
	Skipped string `json:"skipped,omitempty"`

	// Snapshot and Backup are the names of the EtcdSnapshot and of the Backup that is made of it.
	Snapshot string `json:"snapshot,omitempty"`
	Backup   string `json:"backup,omitempty"`
	// Source is the snapshot's object, beside the one that is restored.
	Source Source `json:"source"`
	// Proof is what the object turned out to be; nil until it has passed.
	Proof *Proof `json:"proof,omitempty"`
	// Prepared is the copy that the cluster starts from if the restore is rolled back; recorded with the proof, before it is made.
	Prepared *Prepared `json:"prepared,omitempty"`
}

// Taken tells that there is, or is to be, a copy.
func (s *Safety) Taken() bool { return s != nil && s.Skipped == "" }

// Ready tells that the cluster could start from the copy.
func (s *Safety) Ready() bool {
	return s.Taken() && s.Proof != nil && s.Prepared.Stored() && !s.Prepared.Discarded
}

// Rollback is the way back from a restored cluster that failed: it is deleted, and the safety copy takes its place.
type Rollback struct {
	// At is when it was decided; its deadline counts from here.
	At metav1.Time `json:"at"`
	// FailedUID and FailedClusterID identify the cluster that failed. The ID is empty where no quorum ever formed.
	FailedUID       types.UID `json:"failedUID"`
	FailedClusterID string    `json:"failedClusterID,omitempty"`
	// Cause is why, in words.
	Cause string `json:"cause"`
}

// Volume is a PersistentVolume of the former cluster that outlives it for a while.
type Volume struct {
	Name     string    `json:"name"`
	ClaimUID types.UID `json:"claimUID"`
	// Policy is the reclaim policy that it had before.
	Policy string `json:"policy"`
}

// origin is a place that the recreated cluster can start from.
type origin struct {
	source   Source
	revision int64
	proof    *Proof
	prepared *Prepared
}

// current is what the cluster starts from now: the Backup's object, or, during a rollback, the safety copy.
func (r *Record) current() origin {
	if r.Rollback != nil && r.Safety != nil {
		return origin{source: r.Safety.Source, proof: r.Safety.Proof, prepared: r.Safety.Prepared}
	}
	return origin{source: r.Source, revision: r.Revision, proof: r.Proof, prepared: r.Prepared}
}

// StartProof is what is known of the data that the cluster starts with; nil where nothing is.
func (r *Record) StartProof() *Proof { return r.current().proof }

// Start is the object that the cluster starts from: the prepared copy, once there is one.
func (r *Record) Start() Source {
	now := r.current()
	s := now.source
	if now.prepared.Stored() {
		s.Key, s.SizeBytes, s.Checksum = now.prepared.Key, now.prepared.SizeBytes, now.prepared.Checksum
	}
	return s
}

// StartRevision is the least revision that the cluster has; 0 where nobody knows.
func (r *Record) StartRevision() int64 {
	now := r.current()
	if now.prepared.Stored() {
		return now.prepared.Revision
	}
	return now.revision
}

// Highest is the highest revision that this restore knows of. The safety copy counts once a cluster is to start from it.
func (r *Record) Highest() int64 {
	highest := max(r.HighWater, r.Revision)
	copies := []*Prepared{r.Prepared}
	if r.Rollback != nil && r.Safety != nil {
		copies = append(copies, r.Safety.Prepared)
	}
	for _, p := range copies {
		if p != nil {
			highest = max(highest, p.Live, p.Revision)
		}
	}
	return highest
}

// Former identifies the cluster that has to go before the recreation: the captured one, or, during a rollback, the one that failed.
func (r *Record) Former() (uid types.UID, clusterID string) {
	if r.Rollback != nil {
		return r.Rollback.FailedUID, r.Rollback.FailedClusterID
	}
	return r.OldUID, r.OldClusterID
}
