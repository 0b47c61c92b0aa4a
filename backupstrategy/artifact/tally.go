package artifact

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
)

const (
	// tallyLimit is the number of keys that are counted in memory: about 64 MiB. More go to partitions on disk, each of which fits again.
	tallyLimit      = 1 << 20
	tallyPartitions = 64
	tallyRowSize    = 32
	partitionBuffer = 32 << 10
)

// tally finds the live keys: those whose last revision is not a deletion. Revisions come in order, so what it remembers of a key is its last state. It keeps a
// 128-bit hash in the key's place. Once it holds too many keys, it appends states to partition files by hash, and counts partition after partition.
type tally struct {
	dir   string
	limit int
	seeds [2]maphash.Seed

	state      map[keyHash]keyState
	partitions []*partition
}

type keyHash [2]uint64

// keyState is the last state of a key in the snapshot, and whether the list that it is compared with has the key.
type keyState struct {
	bytes  int64
	prefix uint32
	flags  uint8
}

const (
	stateLive   = 1 << iota // in the snapshot
	stateListed             // in the list
)

type partition struct {
	file   *os.File
	writer *bufio.Writer
}

func newTally(dir string) *tally {
	return &tally{dir: dir, limit: tallyLimit, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, state: map[keyHash]keyState{}}
}

// put notes a revision that wrote the key, remove one that deleted it.
func (t *tally) put(key []byte, prefix uint32, bytes int64) error {
	return t.note(key, keyState{bytes: bytes, prefix: prefix, flags: stateLive})
}

func (t *tally) remove(key []byte, prefix uint32) error { return t.note(key, keyState{prefix: prefix}) }

// list notes that the list has the key; after all revisions.
func (t *tally) list(key []byte, prefix uint32) error {
	return t.note(key, keyState{prefix: prefix, flags: stateListed})
}

func (t *tally) note(key []byte, s keyState) error {
	h := keyHash{maphash.Bytes(t.seeds[0], key), maphash.Bytes(t.seeds[1], key)}
	if t.partitions != nil {
		return t.spill(h, s)
	}
	merge(t.state, h, s)
	if len(t.state) <= t.limit {
		return nil
	}
	if err := t.open(); err != nil {
		return err
	}
	for h, s := range t.state {
		if err := t.spillState(h, s); err != nil {
			return err
		}
	}
	t.state = nil
	return nil
}

// spillState writes a state as the notes that led to it: a row that says "listed" says nothing else.
func (t *tally) spillState(h keyHash, s keyState) error {
	if s.flags&stateListed == 0 {
		return t.spill(h, s)
	}
	s.flags &^= stateListed
	return errors.Join(t.spill(h, s), t.spill(h, keyState{prefix: s.prefix, flags: stateListed}))
}

func merge(state map[keyHash]keyState, h keyHash, s keyState) {
	if s.flags&stateListed == 0 {
		state[h] = s
		return
	}
	before, known := state[h]
	if !known {
		before = keyState{prefix: s.prefix}
	}
	before.flags |= stateListed
	state[h] = before
}

// each calls back once for every key that was noted.
func (t *tally) each(count func(keyState)) error {
	for _, s := range t.state {
		count(s)
	}
	for _, p := range t.partitions {
		state, err := p.read()
		if err != nil {
			return err
		}
		for _, s := range state {
			count(s)
		}
	}
	return nil
}

func (t *tally) open() error {
	for range tallyPartitions {
		f, err := os.CreateTemp(t.dir, ".keys-*")
		if err != nil {
			return scratchError(err)
		}
		// The name is not needed: nothing is left behind when the process dies.
		_ = os.Remove(f.Name())
		t.partitions = append(t.partitions, &partition{file: f, writer: bufio.NewWriterSize(f, partitionBuffer)})
	}
	return nil
}

func (t *tally) close() {
	for _, p := range t.partitions {
		_ = p.file.Close()
	}
}

func (t *tally) spill(h keyHash, s keyState) error {
	var row [tallyRowSize]byte
	le := binary.LittleEndian
	le.PutUint64(row[0:], h[0])
	le.PutUint64(row[8:], h[1])
	le.PutUint64(row[16:], uint64(s.bytes)) //nolint:gosec // a length
	le.PutUint32(row[24:], s.prefix)
	row[28] = s.flags
	if _, err := t.partitions[h[0]%tallyPartitions].writer.Write(row[:]); err != nil {
		return scratchError(err)
	}
	return nil
}

// read gives the last state of each key of the partition.
func (p *partition) read() (map[keyHash]keyState, error) {
	if err := p.writer.Flush(); err != nil {
		return nil, scratchError(err)
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	state, in, le := map[keyHash]keyState{}, bufio.NewReaderSize(p.file, partitionBuffer), binary.LittleEndian
	var row [tallyRowSize]byte
	for {
		_, err := io.ReadFull(in, row[:])
		if errors.Is(err, io.EOF) {
			return state, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read a partition of keys: %w", err)
		}
		h := keyHash{le.Uint64(row[0:]), le.Uint64(row[8:])}
		merge(state, h, keyState{bytes: int64(le.Uint64(row[16:])), prefix: le.Uint32(row[24:]), flags: row[28]}) //nolint:gosec // a length
	}
}
