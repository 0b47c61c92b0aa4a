package artifact

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
)

const (
	// preparedMark stands between the original's name and the UID.
	preparedMark = ".prepared-"
	objectSuffix = ".db"
	// MetadataOwner is the user metadata of a prepared object; its value is the RestoreJob's UID.
	MetadataOwner = "cozy-etcd-restore-job-uid"
)

// PreparedKey is the key of the copy that one RestoreJob makes of an object: beside the original, so whoever may read that may read this, and under a name
// that no snapshot of the operator has by chance.
func PreparedKey(original, uid string) string {
	return strings.TrimSuffix(original, objectSuffix) + preparedMark + uid + objectSuffix
}

// PreparedFor tells which RestoreJob a key belongs to; false for the key of anything but a prepared copy.
func PreparedFor(key string) (uid string, ok bool) {
	name, isObject := strings.CutSuffix(key, objectSuffix)
	i := strings.LastIndex(name, preparedMark)
	if !isObject || i < 0 {
		return "", false
	}
	uid = name[i+len(preparedMark):]
	return uid, uid != "" && !strings.Contains(uid, "/")
}

// Upload stores a prepared copy and makes sure that the store has all of it.
func Upload(ctx context.Context, to store.Store, key, uid string, p Prepared) error {
	f, err := os.Open(p.Path)
	if err != nil {
		return scratchError(err)
	}
	defer func() { _ = f.Close() }()
	if err := to.Put(ctx, key, store.Content{Body: f, Size: p.SizeBytes, Metadata: map[string]string{MetadataOwner: uid}}); err != nil {
		return err
	}
	info, err := to.Head(ctx, key)
	if err != nil {
		return err
	}
	if info.Size != p.SizeBytes {
		return store.Failed("HEAD "+key, store.ErrUnavailable, fmt.Sprintf("%d bytes are there of %d that were stored", info.Size, p.SizeBytes))
	}
	return nil
}
