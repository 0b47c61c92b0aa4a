package artifact

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	revisionSize = 17 // main, an underscore, sub
	tombstone    = 't'
)

// revision takes an entry of the key space: a revision, and the key and value that it wrote.
func (r *report) revision(key, value []byte, at int64) error {
	main, deleted, ok := parseRevision(key)
	if !ok {
		return broken(at, "%s is no revision of a key", short(key))
	}
	name, size, err := keyValue(value)
	if err != nil {
		return broken(at, "what revision %d wrote cannot be read: %v", main, err)
	}
	r.facts.Revision = max(r.facts.Revision, main)
	r.facts.Revisions++
	if len(name) == 0 {
		// What a restore with a bump leaves behind: it moves the revision and is no key.
		return nil
	}
	prefix := r.prefixes.number(name)
	if deleted {
		return r.tally.remove(name, prefix)
	}
	return r.tally.put(name, prefix, int64(len(name)+size))
}

func parseRevision(b []byte) (main int64, deleted, ok bool) {
	if len(b) != revisionSize && (len(b) != revisionSize+1 || b[revisionSize] != tombstone) || b[8] != '_' || b[0] > 0x7f {
		return 0, false, false
	}
	return int64(binary.BigEndian.Uint64(b)), len(b) > revisionSize, true //nolint:gosec // the sign bit is clear
}

// keyValue reads key and length of the value of a mvccpb.KeyValue.
func keyValue(b []byte) (key []byte, valueSize int, err error) {
	err = fields(b, func(number protowire.Number, text []byte, _ uint64) {
		switch number {
		case 1:
			key = text
		case 5:
			valueSize = len(text)
		}
	})
	return key, valueSize, err
}

// fields calls back for each field of a protobuf message: text for bytes, value for numbers.
func fields(b []byte, each func(number protowire.Number, text []byte, value uint64)) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var text []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		each(number, text, value)
		b = b[n:]
	}
	return nil
}
