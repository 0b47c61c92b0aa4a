package record

// Proof is what the source's object turned out to be when all of it was read.
type Proof struct {
	SizeBytes int64  `json:"sizeBytes"`
	Checksum  string `json:"checksum"` // sha256:<hex> over all bytes

	DatabaseBytes int64 `json:"databaseBytes"` // without the trailing sha256
	InUseBytes    int64 `json:"inUseBytes"`    // in pages that are not free
	// Minor of the etcd that it is of, such as 3.6; empty where neither the database nor the Backup says.
	Minor       string `json:"minor,omitempty"`
	Revision    int64  `json:"revision"`
	Revisions   int64  `json:"revisions"` // entries, history included
	Keys        int64  `json:"keys"`      // live ones
	AuthEnabled bool   `json:"authEnabled,omitempty"`
	// CorruptMember has a CORRUPT alarm in the snapshot, in hex; empty where none has.
	CorruptMember string `json:"corruptMember,omitempty"`
}

// Prepared is the copy of the source that the cluster starts from. It is recorded before it is made, so that whatever a dead controller has stored is found
// again.
type Prepared struct {
	Key string `json:"key"` // beside the source's
	// Bump is what the revision grows by, and Live the highest revision that a member answered with; 0 where none did.
	Bump int64 `json:"bump"`
	Live int64 `json:"live,omitempty"`

	// Revision of the cluster at its start; 0 until the copy is stored.
	Revision  int64  `json:"revision,omitempty"`
	SizeBytes int64  `json:"sizeBytes,omitempty"`
	Checksum  string `json:"checksum,omitempty"`
	Etcdutl   string `json:"etcdutl,omitempty"`
	// Discarded tells that nothing more is to be done about the object.
	Discarded bool `json:"discarded,omitempty"`
}

// Stored tells that the copy is in the store.
func (p *Prepared) Stored() bool { return p != nil && p.Revision > 0 }
