package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const (
	trailerSize = sha256.Size
	// sectorSize divides the size of every database, so what etcd appends is the remainder.
	sectorSize     = 512
	checksumPrefix = "sha256:"
	readBuffer     = 1 << 20
)

// Record is what a Backup says of its object.
type Record struct {
	SizeBytes int64  // 0 where it does not say
	Checksum  string // sha256:<hex> over the whole object; empty where it does not say
	// AllowBare accepts a database without etcd's sha256 behind it, such as one copied from a data directory.
	AllowBare bool
}

// Sums is what the bytes of an object say of themselves.
type Sums struct {
	Size     int64
	Whole    [sha256.Size]byte // over all bytes
	Database [sha256.Size]byte // over all but the last 32
	Trailer  [sha256.Size]byte // the last 32
}

// Checksum is the whole sum as a Backup records it.
func (s Sums) Checksum() string { return checksumPrefix + hex.EncodeToString(s.Whole[:]) }

// Trailed tells whether the last 32 bytes are etcd's sha256 of those before.
func (s Sums) Trailed() bool { return s.Size >= trailerSize && s.Trailer == s.Database }

// DatabaseSize is the object's size without the trailing sha256, if it has one.
func (s Sums) DatabaseSize() int64 {
	if s.Trailed() {
		return s.Size - trailerSize
	}
	return s.Size
}

// summer computes both sums in one pass: it holds the last 32 bytes back, and the sum over what came before them is read off before they are added.
type summer struct {
	hash hash.Hash
	tail []byte
	size int64
}

func newSummer() *summer { return &summer{hash: sha256.New(), tail: make([]byte, 0, 2*trailerSize)} }

// Write implements io.Writer.
func (s *summer) Write(b []byte) (int, error) {
	s.size += int64(len(b))
	if len(b) >= trailerSize {
		_, _ = s.hash.Write(s.tail)
		_, _ = s.hash.Write(b[:len(b)-trailerSize])
		s.tail = append(s.tail[:0], b[len(b)-trailerSize:]...)
		return len(b), nil
	}
	s.tail = append(s.tail, b...)
	if extra := len(s.tail) - trailerSize; extra > 0 {
		_, _ = s.hash.Write(s.tail[:extra])
		s.tail = append(s.tail[:0], s.tail[extra:]...)
	}
	return len(b), nil
}

// sums ends the computation: the sum over everything is in the hash from then on.
func (s *summer) sums() Sums {
	out := Sums{Size: s.size}
	s.hash.Sum(out.Database[:0])
	copy(out.Trailer[:], s.tail)
	_, _ = s.hash.Write(s.tail)
	s.hash.Sum(out.Whole[:0])
	return out
}

// HashFile computes the sums of a file.
func HashFile(ctx context.Context, path string) (Sums, error) {
	s := newSummer()
	if err := hashFile(ctx, path, s); err != nil {
		return Sums{}, err
	}
	return s.sums(), nil
}

func hashFile(ctx context.Context, path string, s *summer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	buffer := make([]byte, readBuffer)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(buffer)
		_, _ = s.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read at byte %d: %w", s.size, err)
		}
	}
}

// Check holds the sums against the record and against etcd's own sha256 at the end.
func (s Sums) Check(r Record) error {
	if err := checkSize(s.Size, r); err != nil {
		return err
	}
	if r.Checksum != "" {
		want, ok := strings.CutPrefix(r.Checksum, checksumPrefix)
		if !ok || len(want) != hex.EncodedLen(sha256.Size) {
			return fault.Terminalf(backupsv1alpha1.ReasonArtifactInvalid, "the recorded checksum %q is not sha256: and 64 hex digits", r.Checksum)
		}
		if got := hex.EncodeToString(s.Whole[:]); got != strings.ToLower(want) {
			return fault.Terminalf(backupsv1alpha1.ReasonArtifactChecksumMismatch,
				"sha256 over all %d bytes is %s, but the record says %s: the object was changed or damaged after it was recorded", s.Size, got, want)
		}
	}
	switch {
	case s.Trailed():
		return nil
	case s.Size%sectorSize == 0 && r.AllowBare:
		return nil
	case s.Size%sectorSize == 0:
		return fault.Terminalf(backupsv1alpha1.ReasonArtifactHashMismatch, "the object ends at byte %d without etcd's own sha256: it was cut off there, or is a database file and no snapshot", s.Size)
	case s.Size%sectorSize != trailerSize:
		return fault.Terminalf(backupsv1alpha1.ReasonArtifactTruncated,
			"the object is truncated: it ends at byte %d, %d bytes behind a multiple of %d, where a snapshot ends with 32 bytes of etcd's own sha256", s.Size, s.Size%sectorSize, sectorSize)
	}
	return fault.Terminalf(backupsv1alpha1.ReasonArtifactHashMismatch, "etcd's own sha256 at byte %d is %x, but the %d bytes before it have %x: the snapshot is damaged",
		s.Size-trailerSize, s.Trailer, s.Size-trailerSize, s.Database)
}

func checkSize(size int64, r Record) error {
	switch {
	case size == 0:
		return fault.Terminalf(backupsv1alpha1.ReasonArtifactTruncated, "the object is empty")
	case r.SizeBytes <= 0 || r.SizeBytes == size:
		return nil
	case size < r.SizeBytes:
		return fault.Terminalf(backupsv1alpha1.ReasonArtifactTruncated, "the object is truncated at byte %d of %d", size, r.SizeBytes)
	}
	return fault.Terminalf(backupsv1alpha1.ReasonArtifactSizeMismatch, "the object has %d bytes, %d more than the record says", size, size-r.SizeBytes)
}
