// Package artifact measures the proof and the preparation of a snapshot against the tools that do less.
package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdserver"
)

const (
	valueSize  = 1000
	batch      = 5000
	namespaces = 200
)

// makeSnapshot takes an empty snapshot from a real etcd and fills its key space straight through bbolt, as no client could in reasonable time. Of what is
// written, the given part in a hundred is deleted again and leaves free pages.
func makeSnapshot(ctx context.Context, bin, dir string, size int64, freePercent int) (string, error) {
	seed, err := emptySnapshot(ctx, bin, dir)
	if err != nil {
		return "", err
	}
	raw := filepath.Join(dir, "raw.db")
	if err := os.WriteFile(raw, seed[:len(seed)-sha256.Size], 0o600); err != nil {
		return "", err
	}
	db, err := bbolt.Open(raw, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close(); _ = os.Remove(raw) }()
	if err := fill(db, size, freePercent); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "snapshot.db")
	return path, write(db, path)
}

func emptySnapshot(ctx context.Context, bin, dir string) ([]byte, error) {
	server, err := etcdserver.Start(ctx, filepath.Join(bin, "etcd-3.6.11"), filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	r, err := server.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

// fill writes entries of the key space until the file has the size, then deletes every so many of the last ones.
func fill(db *bbolt.DB, size int64, freePercent int) error {
	value, noise := make([]byte, valueSize), rand.NewChaCha8([32]byte{1})
	entries := uint64(size / (valueSize + 120)) //nolint:gosec // positive
	for next := uint64(2); next < entries; {
		err := db.Update(func(tx *bbolt.Tx) error {
			keys := tx.Bucket([]byte("key"))
			keys.FillPercent = 0.9 // as etcd's own batches
			for range batch {
				_, _ = noise.Read(value)
				if err := keys.Put(revision(next), keyValue(next, value)); err != nil {
					return err
				}
				next++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return db.Update(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		for i := range entries * uint64(freePercent) / 100 { //nolint:gosec // a percentage
			if err := keys.Delete(revision(2 + i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func revision(main uint64) []byte {
	k := make([]byte, 17)
	binary.BigEndian.PutUint64(k, main)
	k[8] = '_'
	return k
}

func keyValue(rev uint64, value []byte) []byte {
	m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprintf("/registry/kind-%d/ns-%d/%d", rev%30, rev%namespaces, rev))
	for field := protowire.Number(2); field <= 3; field++ {
		m = protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), rev)
	}
	m = protowire.AppendVarint(protowire.AppendTag(m, 4, protowire.VarintType), 1)
	return protowire.AppendBytes(protowire.AppendTag(m, 5, protowire.BytesType), value)
}

// write stores the database as etcd streams it: its pages, then their sha256.
func write(db *bbolt.DB, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	err = db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(io.MultiWriter(f, sum))
		return err
	})
	if err != nil {
		return err
	}
	_, err = f.Write(sum.Sum(nil))
	return err
}
