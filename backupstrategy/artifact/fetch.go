package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const (
	snapshotName = "snapshot.db"
	// maxIdle is the number of downloads in a row that may end without a new byte.
	maxIdle = 3
)

// File is a snapshot on disk whose bytes have been checked.
type File struct {
	Path string
	Sums Sums
}

// Inspect reads every page and every entry of the snapshot.
func (f File) Inspect(ctx context.Context, o Options) (Facts, error) {
	o.DatabaseBytes = f.Sums.DatabaseSize()
	return Inspect(ctx, f.Path, o)
}

// Fetch streams an object into the workspace and checks its size, the recorded sha256 and etcd's own sha256 on the way. A download that breaks is taken up
// where it broke, as long as the object is still the same.
func Fetch(ctx context.Context, from store.Reader, key string, r Record, w *Workspace) (File, error) {
	info, err := from.Head(ctx, key)
	if err != nil {
		return File{}, err
	}
	if err := checkSize(info.Size, r); err != nil {
		return File{}, fmt.Errorf("%s: %w", key, err)
	}
	path := w.Path(snapshotName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return File{}, scratchError(err)
	}
	if err := w.Need(info.Size); err != nil {
		return File{}, err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return File{}, scratchError(err)
	}
	defer func() { _ = out.Close() }()
	d := &download{from: from, key: key, info: info, out: out, sum: newSummer(), buffer: make([]byte, readBuffer)}
	if err := d.run(ctx); err != nil {
		return File{}, err
	}
	if err := out.Close(); err != nil {
		return File{}, scratchError(err)
	}
	sums := d.sum.sums()
	if err := sums.Check(r); err != nil {
		return File{}, fmt.Errorf("%s: %w", key, err)
	}
	return File{Path: path, Sums: sums}, nil
}

type download struct {
	from   store.Reader
	key    string
	info   store.Info
	out    io.Writer
	sum    *summer
	buffer []byte
}

func (d *download) run(ctx context.Context) error {
	idle := 0
	for d.sum.size < d.info.Size {
		before := d.sum.size
		err := d.attempt(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil || fault.ClassOf(err) != fault.Transient {
			return err
		}
		if d.sum.size > before {
			idle = 0
		} else if idle++; idle == maxIdle {
			return err
		}
	}
	return nil
}

// attempt reads from where the last one ended to the object's end.
func (d *download) attempt(ctx context.Context) error {
	body, err := d.from.Get(ctx, d.key, store.Range{Offset: d.sum.size, ETag: d.info.ETag})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	for {
		n, err := body.Read(d.buffer)
		if d.sum.size+int64(n) > d.info.Size {
			return store.Failed("GET "+d.key, store.ErrChanged, fmt.Sprintf("it goes on behind byte %d", d.info.Size))
		}
		if _, err := d.out.Write(d.buffer[:n]); err != nil {
			return scratchError(err)
		}
		_, _ = d.sum.Write(d.buffer[:n])
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return err
		case d.sum.size < d.info.Size:
			return store.Failed("GET "+d.key, store.ErrUnavailable, fmt.Sprintf("the answer ended at byte %d of %d", d.sum.size, d.info.Size))
		default:
			return nil
		}
	}
}
