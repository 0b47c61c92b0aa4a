package artifact

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// maxNames bounds the lists of users, roles, members and alarms.
const maxNames = 1000

// Facts is what a database says.
type Facts struct {
	DatabaseBytes int64 `json:"databaseBytes"` // without the trailing sha256
	InUseBytes    int64 `json:"inUseBytes"`    // in pages that are not free

	// StorageVersion is what etcd ≥ 3.6 writes into its database, ClusterVersion what the members had agreed on. Either may be empty, as in a cluster that has
	// just been restored.
	StorageVersion string `json:"storageVersion,omitempty"`
	ClusterVersion string `json:"clusterVersion,omitempty"`

	ConsistentIndex   uint64 `json:"consistentIndex"`
	Term              uint64 `json:"term"`
	Revision          int64  `json:"revision"`          // the newest main revision; 1 where nothing was ever written, as etcd counts
	CompactedRevision int64  `json:"compactedRevision"` // 0 where nothing was compacted; includes a compaction that is only scheduled
	Revisions         int64  `json:"revisions"`         // entries, history included

	Keys   Count   `json:"keys"`
	Leases int64   `json:"leases"`
	Auth   Auth    `json:"auth"`
	Alarms []Alarm `json:"alarms,omitempty"`
	// Members are those of the cluster that the snapshot was taken from.
	Members []Member `json:"members,omitempty"`

	// Prefixes counts the live keys by Prefix. Rest counts those of prefixes beyond the limit.
	Prefixes map[string]Count `json:"prefixes,omitempty"`
	Rest     *Count           `json:"rest,omitempty"`
	// Roots counts the live keys by Root. MoreRoots tells that some keys are in none of them.
	Roots     map[string]int64 `json:"roots,omitempty"`
	MoreRoots bool             `json:"moreRoots,omitempty"`
	// Difference compares the live keys with a list that was given; nil without one.
	Difference *Difference `json:"difference,omitempty"`
}

// Count is a number of live keys, and of the bytes of keys and values.
type Count struct {
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
}

// Auth is etcd's own access control as the snapshot holds it.
type Auth struct {
	Enabled  bool     `json:"enabled"`
	Revision uint64   `json:"revision,omitempty"`
	Users    []string `json:"users,omitempty"`
	Roles    []string `json:"roles,omitempty"`

	hashes map[string][]byte // bcrypt; of the users listed
}

// AlarmCorrupt is the type of the alarm that etcd raises when members' data differ.
const AlarmCorrupt = "CORRUPT"

// Alarm is one that was raised when the snapshot was taken. It comes back with the data.
type Alarm struct {
	MemberID string `json:"memberID"` // hex
	Type     string `json:"type"`     // NOSPACE, CORRUPT
}

// Member is a row of the member list.
type Member struct {
	ID         string   `json:"id"` // hex
	Name       string   `json:"name,omitempty"`
	PeerURLs   []string `json:"peerURLs,omitempty"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
}

// Minor is "3.6" or the like, from the storage version, else the cluster version; empty where neither is recorded.
func (f Facts) Minor() string {
	if f.StorageVersion != "" {
		return minorOf(f.StorageVersion)
	}
	return minorOf(f.ClusterVersion)
}

// minorOf cuts X.Y off a version, with or without a leading v; empty for what is none.
func minorOf(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || !digits(parts[0]) || !digits(parts[1]) {
		return ""
	}
	return parts[0] + "." + parts[1]
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == "" && len(s) < 6
}

// CheckPassword tells whether a user of the snapshot can log in with a password. It says nothing while auth is off.
func (a Auth) CheckPassword(user, password string) error {
	if !a.Enabled {
		return nil
	}
	hash, ok := a.hashes[user]
	if !ok {
		return fault.Terminalf(backupsv1alpha1.ReasonAuthMismatch, "the snapshot has auth on but no user %q: whoever restores it is locked out", user)
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil {
		return fault.Terminalf(backupsv1alpha1.ReasonPasswordWrong,
			"the snapshot's user %q has another password than the cluster's credentials Secret: put the password of that time into the Secret for the restore, or choose another Backup", user)
	}
	return nil
}

func alarmType(n uint64) string {
	switch n {
	case 1:
		return "NOSPACE"
	case 2:
		return AlarmCorrupt
	}
	return fmt.Sprint(n)
}
