package artifact

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"math/bits"

	"golang.org/x/sync/errgroup"
)

// squeeze moves the pages of a database that are in use to its front, in their old order, cuts the file behind them and writes what it now has to sum as
// well. Only the numbers of pages change, so it costs about as much as reading the file twice; rewriting entry by entry, as bbolt's own Compact does, costs
// several times what etcdutl takes for all of a restore. It works in the file itself, as a second copy costs more than all the rest once the disk cache is
// full. A page never moves up, so none is overwritten before it is read; a file that squeeze leaves halfway is lost, and its maker begins again.
// The file has no free list afterwards, as etcd's own have none.
func squeeze(ctx context.Context, path string, sum io.Writer) error {
	f, m, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	ahead := &readAhead{file: f, size: m.size(), buffer: make([]byte, 0, readBuffer)}
	c := &squeezer{database: database{file: ahead, meta: m, reached: newBitmap(m.pages), free: newBitmap(m.pages), reachedCount: 2}}
	if err := c.reach(ctx); err != nil {
		return err
	}
	if err := alongside(sum, func(sum io.Writer) error { return c.write(ctx, io.MultiWriter(io.NewOffsetWriter(f, 0), sum)) }); err != nil {
		return err
	}
	if err := f.Truncate(int64(c.reachedCount) * m.pageSize); err != nil { //nolint:gosec // not above the file's size
		return scratchError(err)
	}
	if err := f.Close(); err != nil {
		return scratchError(err)
	}
	return nil
}

// alongside lets a writer work in a goroutine of its own, at most one buffer behind.
func alongside(to io.Writer, work func(io.Writer) error) error {
	reader, writer := io.Pipe()
	var group errgroup.Group
	group.Go(func() error {
		_, err := io.CopyBuffer(to, reader, make([]byte, readBuffer))
		return err
	})
	err := work(writer)
	return errors.Join(err, writer.Close(), group.Wait())
}

// squeezer renumbers pages: the new number of a page is the number of pages in use before it.
type squeezer struct {
	database
	before []uint64 // pages in use before each word of reached
}

// squeezeDepth is the depth at which load allows for a leaf of any size.
const squeezeDepth = maxRootDepth

// reach marks the pages of all trees, those of buckets within buckets included. Each page is read into the same buffer, so what it refers to is noted first.
func (s *squeezer) reach(ctx context.Context) error {
	s.reached.set(0)
	s.reached.set(1)
	var below []uint64
	for next := []uint64{s.meta.root}; len(next) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := next[len(next)-1]
		next = next[:len(next)-1]
		p, err := s.load(id, squeezeDepth)
		if err != nil {
			return err
		}
		below = below[:0]
		if err := eachReference(p, func(b []byte) { below = append(below, binary.LittleEndian.Uint64(b)) }); err != nil {
			return err
		}
		// The first is read next: trees lie about in the order of their keys.
		for i := len(below) - 1; i >= 0; i-- {
			next = append(next, below[i])
		}
	}
	s.before = make([]uint64, len(s.reached))
	for i := 1; i < len(s.reached); i++ {
		s.before[i] = s.before[i-1] + uint64(bits.OnesCount64(s.reached[i-1]))
	}
	return nil
}

// eachReference gives the places on a page of a tree that hold the number of another page.
func eachReference(p *page, each func(b []byte)) error {
	if p.flags != flagBranch && p.flags != flagLeaf {
		return broken(p.at, "page %d of a tree has flags %#x, which is neither branch nor leaf", p.id, p.flags)
	}
	for i := range p.count {
		if p.flags == flagBranch {
			if _, err := p.element(i); err != nil {
				return err
			}
			row := pageHeaderSize + i*elementSize
			each(p.data[row+8 : row+elementSize])
			continue
		}
		e, err := p.element(i)
		switch {
		case err != nil:
			return err
		case !e.bucket:
		case len(e.value) < bucketHeaderSize:
			return broken(e.at, "bucket %q has a header of %d bytes", short(e.key), len(e.value))
		case binary.LittleEndian.Uint64(e.value) != 0: // else it is inline
			each(e.value[:8])
		}
	}
	return nil
}

// renumbered is the new number of a page in use.
func (s *squeezer) renumbered(id uint64) uint64 {
	word := id / 64
	return s.before[word] + uint64(bits.OnesCount64(s.reached[word]&(1<<(id%64)-1)))
}

func (s *squeezer) write(ctx context.Context, target io.Writer) error {
	out := bufio.NewWriterSize(target, readBuffer)
	if err := s.writeMetas(out); err != nil {
		return err
	}
	for id := uint64(2); id < s.meta.pages; {
		if !s.reached.has(id) {
			id++
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := s.read(id, squeezeDepth)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(p.data, s.renumbered(id))
		err = eachReference(p, func(b []byte) {
			binary.LittleEndian.PutUint64(b, s.renumbered(binary.LittleEndian.Uint64(b)))
		})
		if err != nil {
			return err
		}
		if _, err := out.Write(p.data); err != nil {
			return scratchError(err)
		}
		id += uint64(len(p.data)) / uint64(s.meta.pageSize)
	}
	if err := out.Flush(); err != nil {
		return scratchError(err)
	}
	return nil
}

// writeMetas writes both meta pages, of which the first is the younger, as in a snapshot.
func (s *squeezer) writeMetas(out io.Writer) error {
	le := binary.LittleEndian
	for id := range uint64(2) {
		b := make([]byte, s.meta.pageSize)
		le.PutUint64(b, id)
		le.PutUint16(b[8:], flagMeta)
		body := b[pageHeaderSize : pageHeaderSize+metaSize]
		copy(body, s.meta.raw[:])
		le.PutUint64(body[16:], s.renumbered(s.meta.root))
		le.PutUint64(body[32:], noFreelist)
		le.PutUint64(body[40:], s.reachedCount)
		le.PutUint64(body[48:], max(s.meta.txid, 1)-id)
		sum := fnv.New64a()
		_, _ = sum.Write(body[:metaSummed])
		le.PutUint64(body[metaSummed:], sum.Sum64())
		if _, err := out.Write(b); err != nil {
			return scratchError(err)
		}
	}
	return nil
}

// readAhead reads larger and larger pieces while the places that are asked for ascend, and no more than is asked for after a jump.
type readAhead struct {
	file   io.ReaderAt
	size   int64
	at     int64 // of the buffer in the file
	buffer []byte
	window int64 // size of the last piece
}

// ReadAt implements io.ReaderAt.
func (r *readAhead) ReadAt(b []byte, at int64) (int, error) {
	length, most, end := int64(len(b)), int64(cap(r.buffer)), r.at+int64(len(r.buffer))
	if length > most {
		return r.file.ReadAt(b, at)
	}
	if at < r.at || at+length > end {
		if r.at <= at && at <= end+r.window {
			r.window = min(2*r.window, most)
		} else {
			r.window = 0
		}
		r.window = max(r.window, length)
		r.at, r.buffer = at, r.buffer[:max(min(r.window, r.size-at), 0)]
		if n, err := r.file.ReadAt(r.buffer, at); err != nil {
			r.buffer = r.buffer[:n]
			return copy(b, r.buffer), err
		}
	}
	n := copy(b, r.buffer[at-r.at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
