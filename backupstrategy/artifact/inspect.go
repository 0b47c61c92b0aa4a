package artifact

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Options of Inspect.
type Options struct {
	// DatabaseBytes is the size without the trailing sha256; 0 means to tell by the file's size.
	DatabaseBytes int64
	// SpillDir takes partitions of keys of a large snapshot; empty means the file's own folder.
	SpillDir string
	// Compare is a list of keys, each once, in any order, that the live keys are compared with; nil compares nothing.
	Compare iter.Seq2[[]byte, error]
}

// Inspect reads every page and every entry of a database. An error of reason ArtifactBroken names the byte that is wrong.
func Inspect(ctx context.Context, path string, o Options) (Facts, error) {
	f, err := os.Open(path)
	if err != nil {
		return Facts{}, err
	}
	defer func() { _ = f.Close() }()
	if o.DatabaseBytes == 0 {
		info, err := f.Stat()
		if err != nil {
			return Facts{}, err
		}
		o.DatabaseBytes = info.Size() - info.Size()%sectorSize
	}
	if o.SpillDir == "" {
		o.SpillDir = filepath.Dir(path)
	}
	r := newReport(o.SpillDir)
	defer r.tally.close()
	d, err := walk(ctx, f, o.DatabaseBytes, r.entry)
	if err != nil {
		return Facts{}, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if !r.sawKeys {
		return Facts{}, fmt.Errorf("%s: %w", filepath.Base(path), broken(0, "it has no bucket %q: it is not etcd's", bucketKey))
	}
	r.facts.DatabaseBytes = o.DatabaseBytes
	r.facts.InUseBytes = int64(d.reachedCount) * d.meta.pageSize //nolint:gosec // below the file's size
	return r.finish(o.Compare)
}

// Buckets and keys of etcd's database: server/storage/schema.
const (
	bucketKey     = "key"
	bucketMeta    = "meta"
	bucketLease   = "lease"
	bucketAlarm   = "alarm"
	bucketCluster = "cluster"
	bucketMembers = "members"
	bucketAuth    = "auth"
	bucketUsers   = "authUsers"
	bucketRoles   = "authRoles"
)

// report gathers facts while the database is walked.
type report struct {
	facts    Facts
	prefixes *prefixes
	tally    *tally
	sawKeys  bool
}

func newReport(spillDir string) *report {
	return &report{
		facts:    Facts{Revision: 1, Auth: Auth{hashes: map[string][]byte{}}, Prefixes: map[string]Count{}},
		prefixes: newPrefixes(), tally: newTally(spillDir),
	}
}

// entry takes what the walk meets. A key of nil announces a bucket, which may be empty.
func (r *report) entry(bucket, key, value []byte, at int64) error {
	if key == nil {
		r.sawKeys = r.sawKeys || string(bucket) == bucketKey
		return nil
	}
	switch string(bucket) {
	case bucketKey:
		return r.revision(key, value, at)
	case bucketMeta:
		r.meta(string(key), value)
	case bucketCluster:
		if string(key) == "clusterVersion" {
			r.facts.ClusterVersion = string(value)
		}
	case bucketLease:
		r.facts.Leases++
	case bucketAlarm:
		return r.alarm(key, at)
	case bucketMembers:
		return r.member(key, value, at)
	case bucketAuth:
		r.auth(string(key), value)
	case bucketUsers:
		return r.user(string(key), value, at)
	case bucketRoles:
		if len(r.facts.Auth.Roles) < maxNames {
			r.facts.Auth.Roles = append(r.facts.Auth.Roles, string(key))
		}
	}
	return nil
}

const (
	revisionSize = 17 // main, an underscore, sub
	tombstone    = 't'
)

// revision takes an entry of the key space: a revision, and the key and value that it wrote.
func (r *report) revision(key, value []byte, at int64) error {
	main, deleted, ok := parseRevision(key)
	if !ok {
		return broken(at, "%s is no revision of a key", short(key))
	}
	name, size, err := keyValue(value)
	if err != nil {
		return broken(at, "what revision %d wrote cannot be read: %v", main, err)
	}
	r.facts.Revision = max(r.facts.Revision, main)
	r.facts.Revisions++
	if len(name) == 0 {
		// What a restore with a bump leaves behind: it moves the revision and is no key.
		return nil
	}
	prefix := r.prefixes.number(name)
	if deleted {
		return r.tally.remove(name, prefix)
	}
	return r.tally.put(name, prefix, int64(len(name)+size))
}

func parseRevision(b []byte) (main int64, deleted, ok bool) {
	if len(b) != revisionSize && (len(b) != revisionSize+1 || b[revisionSize] != tombstone) || b[8] != '_' || b[0] > 0x7f {
		return 0, false, false
	}
	return int64(binary.BigEndian.Uint64(b)), len(b) > revisionSize, true //nolint:gosec // the sign bit is clear
}

// keyValue reads key and length of the value of a mvccpb.KeyValue.
func keyValue(b []byte) (key []byte, valueSize int, err error) {
	err = fields(b, func(number protowire.Number, text []byte, _ uint64) {
		switch number {
		case 1:
			key = text
		case 5:
			valueSize = len(text)
		}
	})
	return key, valueSize, err
}

// fields calls back for each field of a protobuf message: text for bytes, value for numbers.
func fields(b []byte, each func(number protowire.Number, text []byte, value uint64)) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var text []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		each(number, text, value)
		b = b[n:]
	}
	return nil
}

func (r *report) meta(key string, value []byte) {
	f := &r.facts
	switch key {
	case "storageVersion":
		f.StorageVersion = string(value)
	case "consistent_index":
		f.ConsistentIndex = number(value)
	case "term":
		f.Term = number(value)
	case "finishedCompactRev", "scheduledCompactRev":
		if main, _, ok := parseRevision(value); ok {
			f.CompactedRevision = max(f.CompactedRevision, main)
		}
	}
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *report) alarm(key []byte, at int64) error {
	var a Alarm
	err := fields(key, func(n protowire.Number, _ []byte, value uint64) {
		switch n {
		case 1:
			a.MemberID = strconv.FormatUint(value, 16)
		case 2:
			a.Type = alarmType(value)
		}
	})
	if err != nil {
		return broken(at, "an alarm cannot be read: %v", err)
	}
	if len(r.facts.Alarms) < maxNames {
		r.facts.Alarms = append(r.facts.Alarms, a)
	}
	return nil
}

func (r *report) member(key, value []byte, at int64) error {
	var m struct {
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return broken(at, "member %s cannot be read: %v", short(key), err)
	}
	if len(r.facts.Members) < maxNames {
		r.facts.Members = append(r.facts.Members, Member{ID: string(key), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	}
	return nil
}

func (r *report) auth(key string, value []byte) {
	switch key {
	case "authEnabled":
		r.facts.Auth.Enabled = len(value) == 1 && value[0] == 1
	case "authRevision":
		r.facts.Auth.Revision = number(value)
	}
}

func (r *report) user(name string, value []byte, at int64) error {
	if len(r.facts.Auth.Users) >= maxNames && name != rootUser {
		return nil
	}
	err := fields(value, func(n protowire.Number, text []byte, _ uint64) {
		if n == 2 {
			r.facts.Auth.hashes[name] = append([]byte(nil), text...)
		}
	})
	if err != nil {
		return broken(at, "user %q cannot be read: %v", name, err)
	}
	r.facts.Auth.Users = append(r.facts.Auth.Users, name)
	return nil
}
