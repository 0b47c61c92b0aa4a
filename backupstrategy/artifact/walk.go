package artifact

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

// visit is told every bucket below the root, with a key of nil, and then its entries, in order of keys. The slices are valid during the call only; at is the
// byte of the key in the file.
type visit func(bucket, key, value []byte, at int64) error

// database is a bbolt file that is being read page by page.
type database struct {
	file io.ReaderAt
	meta meta
	// reached and free are the pages that belong to a tree, and those that the free list names. A page is in exactly one of them; without a stored free list
	// whatever no tree reaches is free.
	reached, free bitmap
	reachedCount  uint64
	buffers       [][]byte // one for each depth
	large         []byte   // for the one large leaf that is being read
	limit         int      // depth that the tree at hand must not reach
}

// span is the part of the key space that a page may hold: from ≤ key < to; nil is open.
type span struct{ from, to []byte }

// walk checks the whole structure of the file and visits its entries: meta pages, every page's header and bounds, that each page is reached once, the order
// of keys within and across pages, and that no page is lost.
func walk(ctx context.Context, file io.ReaderAt, size int64, v visit) (*database, error) {
	m, err := readMeta(file, size)
	if err != nil {
		return nil, err
	}
	d := &database{file: file, meta: m, reached: newBitmap(m.pages), free: newBitmap(m.pages), reachedCount: 2, limit: maxRootDepth}
	d.reached.set(0)
	d.reached.set(1)
	if m.freelist != noFreelist {
		if err := d.readFreelist(); err != nil {
			return nil, err
		}
	}
	if _, err := d.tree(ctx, m.root, 0, span{}, d.buckets(ctx, v)); err != nil {
		return nil, err
	}
	return d, d.checkLost()
}

// buckets visits the entries of the root bucket, each of which must be a bucket.
func (d *database) buckets(ctx context.Context, v visit) func(element) error {
	return func(e element) error {
		if !e.bucket {
			return broken(e.at, "the root holds %q, which is not a bucket", short(e.key))
		}
		name := bytes.Clone(e.key)
		if err := v(name, nil, nil, e.at); err != nil {
			return err
		}
		return d.bucket(ctx, e, func(inner element) error {
			if inner.bucket {
				return broken(inner.at, "bucket %q holds another bucket, %q, which etcd never writes", short(name), short(inner.key))
			}
			return v(name, inner.key, inner.value, inner.at)
		})
	}
}

// bucket walks the tree of a bucket, in buffers below those of the root's tree. A small bucket is inline: its one page is the entry's value.
func (d *database) bucket(ctx context.Context, e element, each func(element) error) error {
	if len(e.value) < bucketHeaderSize {
		return broken(e.at, "bucket %q has a header of %d bytes", short(e.key), len(e.value))
	}
	root := binary.LittleEndian.Uint64(e.value)
	if root != 0 {
		d.limit = maxDepth
		defer func() { d.limit = maxRootDepth }()
		_, err := d.tree(ctx, root, maxRootDepth, span{}, each)
		return err
	}
	inline := e.value[bucketHeaderSize:]
	if len(inline) < pageHeaderSize {
		return broken(e.at, "bucket %q has an inline page of %d bytes", short(e.key), len(inline))
	}
	p := headerOf(inline, e.at+int64(len(e.key))+bucketHeaderSize)
	if p.flags != flagLeaf {
		return broken(p.at, "the inline page of bucket %q has flags %#x", short(e.key), p.flags)
	}
	_, err := d.leaf(p, span{}, each)
	return err
}

// tree walks the page and what is below it, and returns the last key.
func (d *database) tree(ctx context.Context, id uint64, depth int, within span, each func(element) error) ([]byte, error) {
	if depth == d.limit {
		return nil, broken(d.offset(id), "page %d lies deeper than any tree of etcd", id)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := d.load(id, depth)
	if err != nil {
		return nil, err
	}
	switch p.flags {
	case flagLeaf:
		return d.leaf(p, within, each)
	case flagBranch:
		return d.branch(ctx, p, depth, within, each)
	}
	return nil, broken(p.at, "page %d of a tree has flags %#x, which is neither branch nor leaf", id, p.flags)
}

func (d *database) leaf(p *page, within span, each func(element) error) (last []byte, err error) {
	last = within.from
	for i := range p.count {
		e, err := p.element(i)
		if err != nil {
			return nil, err
		}
		if err := inOrder(p, i, e, last, within.to); err != nil {
			return nil, err
		}
		last = e.key
		if err := each(e); err != nil {
			return nil, err
		}
	}
	return last, nil
}

func (d *database) branch(ctx context.Context, p *page, depth int, within span, each func(element) error) (last []byte, err error) {
	if p.count == 0 {
		return nil, broken(p.at, "branch page %d has no entries", p.id)
	}
	last = within.from
	for i := range p.count {
		e, err := p.element(i)
		if err != nil {
			return nil, err
		}
		if err := inOrder(p, i, e, last, within.to); err != nil {
			return nil, err
		}
		below := span{from: e.key, to: within.to}
		if i+1 < p.count {
			next, err := p.element(i + 1)
			if err != nil {
				return nil, err
			}
			below.to = next.key
		}
		lastBelow, err := d.tree(ctx, e.child, depth+1, below, each)
		if err != nil {
			return nil, err
		}
		// The key lies in the buffer of the level below, which the next child overwrites.
		last = bytes.Clone(lastBelow)
	}
	return last, nil
}

// inOrder checks an entry against the one before it and the bound of the page. The first entry of a page may equal the bound that its parent names.
func inOrder(p *page, i int, e element, before, to []byte) error {
	if order := bytes.Compare(before, e.key); before != nil && (order > 0 || order == 0 && i > 0) {
		return broken(e.at, "entry %d of page %d, key %s, does not come after %s", i, p.id, short(e.key), short(before))
	}
	if to != nil && bytes.Compare(e.key, to) >= 0 {
		return broken(e.at, "entry %d of page %d, key %s, belongs behind %s in the next page", i, p.id, short(e.key), short(to))
	}
	return nil
}

// short quotes the beginning of a key for a message.
func short(key []byte) string {
	const most = 40
	if len(key) > most {
		return fmt.Sprintf("%q…", key[:most])
	}
	return fmt.Sprintf("%q", key)
}
