package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const (
	workspacePattern = "artifact-*"
	lockName         = "lock"
	// spare bytes are left to whoever else writes to the volume.
	spare = 64 << 20
)

// Scratch is the folder in which artifacts are unpacked, a bounded number at a time.
type Scratch struct {
	dir   string
	limit int64
	slots chan struct{}
}

// NewScratch takes a folder into use. Limit bounds the bytes of all files in one artifact's workspace, 0 leaves it unbounded; parallel is the number of workspaces at a
// time, at least 1. What a process that died has left behind is removed; a workspace that is in use, also by another process, stays.
func NewScratch(dir string, limit int64, parallel int) (*Scratch, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, scratchError(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, workspacePattern))
	if err != nil {
		return nil, err
	}
	for _, old := range left {
		removeIfUnused(old)
	}
	return &Scratch{dir: dir, limit: limit, slots: make(chan struct{}, max(parallel, 1))}, nil
}

// Open waits for a free slot, checks that need more bytes fit, and makes a workspace.
func (s *Scratch) Open(ctx context.Context, need int64) (*Workspace, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for room to unpack a snapshot: %w", ctx.Err())
	}
	w, err := s.open(need)
	if err != nil {
		<-s.slots
	}
	return w, err
}

func (s *Scratch) open(need int64) (*Workspace, error) {
	if err := s.check(s.dir, 0, need); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, workspacePattern)
	if err != nil {
		return nil, scratchError(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, scratchError(err)
	}
	return &Workspace{Dir: dir, scratch: s, lock: lock}, nil
}

// check compares what a workspace holds and needs with the limit, and what it needs with what is free.
func (s *Scratch) check(dir string, used, need int64) error {
	if s.limit > 0 && used+need > s.limit {
		return fault.Terminalf(backupsv1alpha1.ReasonScratchTooSmall,
			"%d bytes of scratch space are needed beside the %d that are in use, and the limit is %d: raise the limit and, where needed, the volume", need, used, s.limit)
	}
	free, err := freeBytes(dir)
	if err != nil {
		return scratchError(err)
	}
	if need+spare > free {
		return fault.Terminalf(backupsv1alpha1.ReasonScratchTooSmall, "%d bytes of scratch space are needed beside a spare of %d and %d are free in %s: give the volume more room", need, int64(spare), free, dir)
	}
	return nil
}

func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // sizes of a disk; the type differs by platform
}

// Workspace is the folder of one artifact.
type Workspace struct {
	Dir     string
	scratch *Scratch
	lock    *os.File
}

// Need checks again, for a step that needs more bytes than are already written. The limit is over both.
func (w *Workspace) Need(more int64) error {
	used, err := w.used()
	if err != nil {
		return scratchError(err)
	}
	return w.scratch.check(w.Dir, used, more)
}

// used is the size of all files in the workspace.
func (w *Workspace) used() (total int64, err error) {
	err = filepath.WalkDir(w.Dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	return total, err
}

// Path of a file in the workspace.
func (w *Workspace) Path(name string) string { return filepath.Join(w.Dir, name) }

// Close removes the workspace and frees its slot. It is safe to call more than once.
func (w *Workspace) Close() error {
	if w.lock == nil {
		return nil
	}
	err := os.RemoveAll(w.Dir)
	_ = w.lock.Close()
	w.lock = nil
	<-w.scratch.slots
	return err
}

// removeIfUnused removes a workspace whose lock nobody holds.
func removeIfUnused(dir string) {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		_ = os.RemoveAll(dir)
		return
	}
	if err != nil {
		return
	}
	defer func() { _ = lock.Close() }()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.RemoveAll(dir)
	}
}

// scratchError says that the volume is full where that is the cause. Trying again does not help against the rest either: the folder is ours alone.
func scratchError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.Terminalf(backupsv1alpha1.ReasonScratchTooSmall, "scratch space ran out: %w", err)
	}
	return fault.Terminalf(backupsv1alpha1.ReasonScratchUnusable, "scratch space cannot be used: %w", err)
}
