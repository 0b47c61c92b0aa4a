package artifact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// load reads a page of a tree into the buffer of its depth and marks it as reached.
func (d *database) load(id uint64, depth int) (*page, error) {
	p, err := d.read(id, depth)
	if err != nil {
		return nil, err
	}
	span := uint64(len(p.data)) / uint64(d.meta.pageSize) //nolint:gosec // positive
	for i := id; i < id+span; i++ {
		if d.reached.has(i) {
			return nil, broken(d.offset(i), "page %d is reached twice", i)
		}
		if d.free.has(i) {
			return nil, broken(d.offset(i), "page %d is in use and on the free list", i)
		}
		d.reached.set(i)
		d.reachedCount++
	}
	return p, nil
}

func (d *database) read(id uint64, depth int) (*page, error) {
	if id < 2 || id >= d.meta.pages {
		return nil, broken(0, "a page refers to page %d of %d", id, d.meta.pages)
	}
	for len(d.buffers) <= depth {
		d.buffers = append(d.buffers, make([]byte, d.meta.pageSize))
	}
	buffer := d.buffers[depth][:d.meta.pageSize]
	at := d.offset(id)
	if err := readFull(d.file, buffer, at); err != nil {
		return nil, err
	}
	overflow := uint64(binary.LittleEndian.Uint32(buffer[12:]))
	if got := binary.LittleEndian.Uint64(buffer); got != id {
		return nil, broken(at, "page %d calls itself page %d", id, got)
	}
	if overflow > 0 {
		if buffer = d.grow(depth, headerOf(buffer, at), overflow); buffer == nil {
			return nil, broken(at, "page %d says it goes on for %d more pages of %d", id, overflow, d.meta.pages)
		}
		if err := readFull(d.file, buffer, at); err != nil {
			return nil, err
		}
	}
	return headerOf(buffer, at), nil
}

// grow gives a buffer for a page with overflow, or nil for one that cannot be. Only a leaf of a bucket may be large, and of those only one is read at a time,
// so a damaged file cannot make a large buffer at each depth.
func (d *database) grow(depth int, p *page, overflow uint64) []byte {
	length := (overflow + 1) * uint64(d.meta.pageSize) //nolint:gosec // positive
	if overflow >= d.meta.pages-p.id || length > maxSpan {
		return nil
	}
	buffer := &d.buffers[depth]
	if length > maxSmallSpan && (p.flags != flagFreelist || depth != 0) {
		if p.flags != flagLeaf || depth < maxRootDepth {
			return nil
		}
		buffer = &d.large
	}
	if uint64(cap(*buffer)) < length {
		*buffer = make([]byte, length)
	}
	return (*buffer)[:length]
}

func headerOf(b []byte, at int64) *page {
	le := binary.LittleEndian
	return &page{id: le.Uint64(b), at: at, flags: le.Uint16(b[8:]), count: int(le.Uint16(b[10:])), data: b}
}

func (d *database) readFreelist() error {
	p, err := d.load(d.meta.freelist, 0)
	if err != nil {
		return err
	}
	if p.flags != flagFreelist {
		return broken(p.at, "the free list, page %d, has flags %#x", p.id, p.flags)
	}
	ids, count := p.data[pageHeaderSize:], uint64(p.count) //nolint:gosec // 16 bits
	if p.count == longFreelist {
		count, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return broken(p.at, "the free list says it has %d pages, more than it has room for", count)
	}
	for i := range count {
		id := binary.LittleEndian.Uint64(ids[i*8:])
		if id < 2 || id >= d.meta.pages || d.free.has(id) || d.reached.has(id) {
			return broken(p.at, "the free list names page %d of %d, which cannot be free or is named twice", id, d.meta.pages)
		}
		d.free.set(id)
	}
	return nil
}

// checkLost finds pages that are neither in use nor free, where the file says which are free.
func (d *database) checkLost() error {
	if d.meta.freelist == noFreelist {
		return nil
	}
	for id := range d.meta.pages {
		if !d.reached.has(id) && !d.free.has(id) {
			return broken(d.offset(id), "page %d is neither in use nor free", id)
		}
	}
	return nil
}

// offset of a page. An id that is out of bounds has none.
func (d *database) offset(id uint64) int64 {
	if id >= d.meta.pages {
		return 0
	}
	return int64(id) * d.meta.pageSize //nolint:gosec // below the file's size
}

func readFull(f io.ReaderAt, b []byte, at int64) error {
	if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the database at byte %d: %w", at, err)
	} else if err != nil {
		return broken(at, "the file ends within a page")
	}
	return nil
}
