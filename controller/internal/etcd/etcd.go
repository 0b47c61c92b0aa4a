// Package etcd talks to the members of a cluster. The interfaces are the roles that reconcilers need; the client is the only importer of clientv3.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
)

// ErrCompacted says that a member no longer has the revision that was asked for.
var ErrCompacted = errors.New("the revision is compacted")

// Target is one server to talk to.
type Target struct {
	Host string // DNS name; verified against the certificate
	Port int    // usually 2379
	TLS  *tls.Config
	// User and Password to log in with; empty means without, or as the certificate's common name.
	User, Password string
}

// Dialer opens connections to members.
type Dialer interface {
	// Dial returns a client of exactly one server. It does not wait for the connection; the first call does, within its context.
	Dial(target Target) (Reader, error)
}

// Reader reads facts from one server.
type Reader interface {
	// Status is answered by the member itself, without quorum.
	Status(ctx context.Context) (Status, error)
	// Members is a linearizable list: it fails without quorum.
	Members(ctx context.Context) ([]Member, error)
	// HashKV hashes the member's key space up to revision; 0 means its current one.
	HashKV(ctx context.Context, revision int64) (Hash, error)
	// CountKeys counts the keys that were live at a revision; 0 means now. The empty key that a restore with a revision bump writes is not counted.
	// ErrCompacted says that the revision is too old.
	CountKeys(ctx context.Context, revision int64) (int64, error)
	Close() error
}

// Status is what a member says of itself.
type Status struct {
	ClusterID uint64
	MemberID  uint64
	Leader    uint64 // member ID; 0 means no leader
	Version   string // X.Y.Z of the running binary
	Revision  int64
	DBSize    int64 // bytes allocated
	DBInUse   int64 // bytes used
	Learner   bool
	// Errors are the member's own complaints; alarms appear here as "NOSPACE" or "CORRUPT" (etcd's Status.Errors).
	Errors []string
}

// Member is a row of the member list.
type Member struct {
	ID      uint64
	Name    string // empty until the member has started once
	Learner bool
}

// Hash is a member's hash of its key space.
type Hash struct {
	Hash            uint32
	HashRevision    int64
	CompactRevision int64
}
