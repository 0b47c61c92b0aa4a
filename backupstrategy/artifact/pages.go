package artifact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// The layout of a bbolt file, format version 2, as written on little-endian machines: go.etcd.io/bbolt/internal/common.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeaderSize    = 16
	elementSize       = 16 // of branch and leaf alike
	bucketHeaderSize  = 16
	metaSize          = 64
	metaSummed        = 56 // its checksum is over what stands before it
	flagBranch        = 0x01
	flagLeaf          = 0x02
	flagMeta          = 0x04
	flagFreelist      = 0x10
	elementIsBucket   = 0x01
	noFreelist        = ^uint64(0)
	longFreelist      = 0xFFFF
	minPageSize       = 512
	maxPageSize       = 64 << 10
	maxSpan           = 64 << 20 // of a leaf with its overflow; etcd refuses values far below that
	maxSmallSpan      = 1 << 20  // of any other page
	maxRootDepth      = 8        // of the bucket of buckets, of which etcd has a dozen
	maxDepth          = 48
	defaultSearchSize = 1024
)

// meta is what a meta page says of the whole file.
type meta struct {
	pageSize int64
	root     uint64 // page of the bucket of buckets
	freelist uint64 // or noFreelist
	pages    uint64 // in use or free: the high-water mark
	txid     uint64
	raw      [metaSize]byte
}

// size is where the last page ends: in bytes, and never above the file's own size.
func (m *meta) size() int64 { return int64(m.pages) * m.pageSize } //nolint:gosec // see readMeta

// openDatabase opens a file for a change and tells how its pages lie.
func openDatabase(path string) (*os.File, meta, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, meta{}, scratchError(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, meta{}, errors.Join(scratchError(err), f.Close())
	}
	m, err := readMeta(f, info.Size())
	if err != nil {
		return nil, meta{}, errors.Join(err, f.Close())
	}
	return f, m, nil
}

// broken is the error for damage at a byte of the file.
func broken(at int64, format string, args ...any) error {
	return fault.Terminalf(backupsv1alpha1.ReasonArtifactBroken, "the database is damaged at byte %d: %s", at, fmt.Sprintf(format, args...))
}

// readMeta returns the younger of the two meta pages that are whole. The first stands at byte 0, the second at one page, whose size only a meta page tells.
func readMeta(f io.ReaderAt, size int64) (meta, error) {
	var found []meta
	first, firstErr := metaAt(f, 0)
	if firstErr == nil {
		found = append(found, first)
	}
	for at := int64(defaultSearchSize); at <= maxPageSize; at *= 2 {
		if firstErr == nil && at != first.pageSize {
			continue
		}
		if second, err := metaAt(f, at); err == nil && second.pageSize == at {
			found = append(found, second)
		}
	}
	if len(found) == 0 {
		return meta{}, broken(0, "neither of its two meta pages is whole (the first: %v)", firstErr)
	}
	m := found[0]
	for _, other := range found[1:] {
		if other.txid > m.txid {
			m = other
		}
	}
	if limit := uint64(size / m.pageSize); m.pages > limit { //nolint:gosec // positive
		return meta{}, fault.Terminalf(backupsv1alpha1.ReasonArtifactTruncated, "the database is truncated: it ends at byte %d of %s", size, bytesOf(m.pages, m.pageSize))
	}
	if m.root < 2 || m.root >= m.pages {
		return meta{}, broken(0, "the root is said to be page %d of %d", m.root, m.pages)
	}
	return m, checkMetaHeaders(f, m)
}

// checkMetaHeaders holds for both meta pages, also for the one that is not used: bbolt panics on a wrong header.
func checkMetaHeaders(f io.ReaderAt, m meta) error {
	for id := range int64(2) {
		at := id * m.pageSize
		b := make([]byte, pageHeaderSize)
		if err := readFull(f, b, at); err != nil {
			return err
		}
		if p := headerOf(b, at); p.id != uint64(id) || p.flags != flagMeta {
			return broken(at, "meta page %d calls itself page %d with flags %#x", id, p.id, p.flags)
		}
	}
	return nil
}

func bytesOf(pages uint64, pageSize int64) string {
	if pages > 1<<47 {
		return fmt.Sprintf("%d pages", pages)
	}
	return fmt.Sprint(pages * uint64(pageSize)) //nolint:gosec // positive
}

func metaAt(f io.ReaderAt, at int64) (meta, error) {
	b := make([]byte, pageHeaderSize+metaSize)
	if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return meta{}, err
	} else if err != nil {
		return meta{}, errors.New("the file ends in it")
	}
	le := binary.LittleEndian
	flags, body := le.Uint16(b[8:]), b[pageHeaderSize:]
	m := meta{
		pageSize: int64(le.Uint32(body[8:])), root: le.Uint64(body[16:]), freelist: le.Uint64(body[32:]), pages: le.Uint64(body[40:]), txid: le.Uint64(body[48:]),
		raw: [metaSize]byte(body),
	}
	sum := fnv.New64a()
	_, _ = sum.Write(body[:metaSummed])
	switch {
	case flags != flagMeta:
		return meta{}, fmt.Errorf("page flags %#x", flags)
	case le.Uint32(body) != boltMagic:
		return meta{}, fmt.Errorf("magic number %#x", le.Uint32(body))
	case le.Uint32(body[4:]) != boltVersion:
		return meta{}, fmt.Errorf("format version %d", le.Uint32(body[4:]))
	case le.Uint64(body[metaSummed:]) != sum.Sum64():
		return meta{}, errors.New("its checksum is wrong")
	case m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return meta{}, fmt.Errorf("page size %d", m.pageSize)
	}
	return m, nil
}

// page is one page with its overflow, and where it lies in the file. For the page of an inline bucket the offset is that of the bucket's value.
type page struct {
	id    uint64
	at    int64
	flags uint16
	count int
	data  []byte // with the header
}

// element is an entry of a branch or leaf page.
type element struct {
	bucket bool
	child  uint64 // of a branch
	key    []byte
	value  []byte // of a leaf
	at     int64  // of the key, in the file
}

// element reads the i-th entry, or says how it leaves the page.
func (p *page) element(i int) (element, error) {
	le := binary.LittleEndian
	start := pageHeaderSize + i*elementSize
	if start+elementSize > len(p.data) {
		return element{}, broken(p.at, "page %d says it has %d entries, more than it has room for", p.id, p.count)
	}
	row := p.data[start:]
	var e element
	var pos, keySize, valueSize int64
	if p.flags == flagBranch {
		pos, keySize, e.child = int64(le.Uint32(row)), int64(le.Uint32(row[4:])), le.Uint64(row[8:])
	} else {
		e.bucket = le.Uint32(row)&elementIsBucket != 0
		pos, keySize, valueSize = int64(le.Uint32(row[4:])), int64(le.Uint32(row[8:])), int64(le.Uint32(row[12:]))
	}
	from := int64(start) + pos
	if from+keySize+valueSize > int64(len(p.data)) {
		return element{}, broken(p.at+int64(start), "entry %d of page %d reaches to byte %d of a page of %d bytes", i, p.id, from+keySize+valueSize, len(p.data))
	}
	e.at = p.at + from
	e.key = p.data[from : from+keySize : from+keySize]
	e.value = p.data[from+keySize : from+keySize+valueSize : from+keySize+valueSize]
	return e, nil
}

// bitmap marks pages.
type bitmap []uint64

func newBitmap(n uint64) bitmap    { return make(bitmap, n/64+1) }
func (b bitmap) has(i uint64) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitmap) set(i uint64)      { b[i/64] |= 1 << (i % 64) }
