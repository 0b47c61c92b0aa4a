package artifact

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
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
		facts:    Facts{Revision: 1, Auth: Auth{hashes: map[string][]byte{}}, Prefixes: map[string]Count{}, Roots: map[string]int64{}},
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
