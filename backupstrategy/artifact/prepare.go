package artifact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/bbolt"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const (
	dataName     = "data"
	preparedName = "prepared.db"
	// walSize is what etcdutl allocates for the log of its data folder and behind the last page of the database, and some for the rest.
	walSize = 96 << 20
	// worthSqueezing is the part of the file that must be free before free pages are left out.
	worthSqueezing = 16
)

// PrepareOptions say how a copy is made ready.
type PrepareOptions struct {
	Workspace *Workspace
	Tools     Tools
	// Bump is what the revision grows by; see Bump. At least 1.
	Bump int64
	// Minor picks the etcdutl, such as "3.6"; empty means the snapshot's own.
	Minor string
}

// Prepared is a copy that a restore starts from. It ends with a sha256 of its own, as snapshots do, so tools that verify it accept it.
type Prepared struct {
	Path      string
	SizeBytes int64
	Checksum  string // sha256:<hex> over all bytes
	Revision  int64  // of the restored cluster at its start; all before it is compacted
	Etcdutl   string // name of the binary that made it
}

// PrepareNeed is the scratch space that Prepare needs beside the snapshot of that size: etcdutl makes one copy of it.
func PrepareNeed(size int64) int64 { return size + walSize }

// Prepare makes the copy: etcdutl bumps the revision and marks everything before it compacted, then free pages are left out. The facts must be those of the
// file.
func Prepare(ctx context.Context, f File, facts Facts, o PrepareOptions) (Prepared, error) {
	if o.Bump < 1 {
		return Prepared{}, fault.Terminalf(backupsv1alpha1.ReasonPrepareFailed, "a bump of %d does not move the revision", o.Bump)
	}
	if o.Minor == "" {
		o.Minor = facts.Minor()
	}
	tool, err := o.Tools.Etcdutl(o.Minor)
	if err != nil {
		return Prepared{}, err
	}
	if err := o.Workspace.Need(PrepareNeed(f.Sums.Size)); err != nil {
		return Prepared{}, err
	}
	p := &preparer{PrepareOptions: o, file: f, facts: facts, tool: tool}
	prepared, err := p.run(ctx)
	return prepared, errors.Join(err, os.RemoveAll(o.Workspace.Path(dataName)))
}

type preparer struct {
	PrepareOptions
	file  File
	facts Facts
	tool  string
}

func (p *preparer) run(ctx context.Context) (Prepared, error) {
	data := p.Workspace.Path(dataName)
	// The bytes were checked on their way to the disk, a moment ago; once more is a quarter of etcdutl's time.
	args := []string{"snapshot", "restore", p.file.Path, "--skip-hash-check", "--data-dir", data, "--bump-revision", strconv.FormatInt(p.Bump, 10), "--mark-compacted"}
	if err := run(ctx, p.Workspace.Dir, p.tool, args...); err != nil {
		return Prepared{}, err
	}
	path := p.Workspace.Path(preparedName)
	if err := os.Rename(filepath.Join(data, "member", "snap", "db"), path); err != nil {
		return Prepared{}, scratchError(err)
	}
	sum, err := p.compact(ctx, path)
	if err != nil {
		return Prepared{}, err
	}
	if err := p.checkRevision(path); err != nil {
		return Prepared{}, err
	}
	return p.seal(path, sum)
}

// compact leaves out the free pages if there are enough of them, or else only what stands behind the last page, and sums up what is left.
func (p *preparer) compact(ctx context.Context, path string) (*summer, error) {
	sum := newSummer()
	if free := p.facts.DatabaseBytes - p.facts.InUseBytes; free >= p.facts.DatabaseBytes/worthSqueezing {
		return sum, squeeze(ctx, path, sum)
	}
	if err := cutTail(path); err != nil {
		return nil, err
	}
	return sum, hashFile(ctx, path, sum)
}

// cutTail drops what bbolt has allocated behind the last page, so that the file has the size that etcd's own snapshot of it would have.
func cutTail(path string) error {
	f, m, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Truncate(m.size())
}

// checkRevision makes sure that etcdutl did what it was asked for.
func (p *preparer) checkRevision(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return fault.Terminalf(backupsv1alpha1.ReasonPrepareFailed, "open what etcdutl wrote: %w", err)
	}
	defer func() { _ = db.Close() }()
	var last, compacted int64
	err = db.View(func(tx *bbolt.Tx) error {
		keys, meta := tx.Bucket([]byte(bucketKey)), tx.Bucket([]byte(bucketMeta))
		if keys == nil || meta == nil {
			return errors.New("it has no bucket of keys")
		}
		name, _ := keys.Cursor().Last()
		last, _, _ = parseRevision(name)
		compacted, _, _ = parseRevision(meta.Get([]byte("scheduledCompactRev")))
		return nil
	})
	if err != nil {
		return fault.Terminalf(backupsv1alpha1.ReasonPrepareFailed, "read what etcdutl wrote: %w", err)
	}
	if want := p.revision(); last != want || compacted != want {
		return fault.Terminalf(backupsv1alpha1.ReasonPrepareFailed, "etcdutl left revision %d and compaction at %d, but both should be %d", last, compacted, want)
	}
	return nil
}

// revision of the copy: etcdutl adds to the last entry's, and a database without entries has none.
func (p *preparer) revision() int64 {
	if p.facts.Revisions == 0 {
		return p.Bump
	}
	return p.facts.Revision + p.Bump
}

// seal appends the sha256 of the pages.
func (p *preparer) seal(path string, sum *summer) (Prepared, error) {
	trailer := sum.sums().Whole
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return Prepared{}, scratchError(err)
	}
	if _, err := f.Write(trailer[:]); err != nil {
		return Prepared{}, errors.Join(scratchError(err), f.Close())
	}
	if err := f.Close(); err != nil {
		return Prepared{}, scratchError(err)
	}
	whole := newSummer()
	whole.hash, whole.size = sum.hash, sum.size
	_, _ = whole.Write(trailer[:])
	sums := whole.sums()
	return Prepared{Path: path, SizeBytes: sums.Size, Checksum: sums.Checksum(), Revision: p.revision(), Etcdutl: filepath.Base(p.tool)}, nil
}
