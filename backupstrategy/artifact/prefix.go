package artifact

import "bytes"

// maxPrefixes bounds the table of a report. Keys of further prefixes are counted as the rest.
const maxPrefixes = 1000

// Prefix is what a key is counted under: its first two path segments, such as /registry/pods. The last segment is the key's own name and never part of it,
// so a flat key space is one row and not one for each key.
func Prefix(key []byte) string {
	rest, lead := key, 0
	if len(rest) > 0 && rest[0] == '/' {
		rest, lead = rest[1:], 1
	}
	end := 0
	for range 2 {
		i := bytes.IndexByte(rest[end:], '/')
		if i < 0 {
			break
		}
		end += i + 1
	}
	if end == 0 {
		return string(key[:lead])
	}
	return string(key[:lead+end-1])
}

// prefixes numbers the prefixes that have been met. Number 0 is the rest.
type prefixes struct {
	numbers map[string]uint32
	names   []string
}

func newPrefixes() *prefixes { return &prefixes{numbers: map[string]uint32{}, names: []string{""}} }

func (p *prefixes) number(key []byte) uint32 {
	name := Prefix(key)
	if n, ok := p.numbers[name]; ok {
		return n
	}
	if len(p.names) > maxPrefixes {
		return 0
	}
	n := uint32(len(p.names)) //nolint:gosec // at most maxPrefixes
	p.numbers[name], p.names = n, append(p.names, name)
	return n
}
