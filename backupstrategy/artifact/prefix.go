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

// maxRoots bounds the number of first path segments.
const maxRoots = 1000

// Root is the first path segment of a key below a slash, such as registry of /registry/pods/a/b; empty for a key without one. Kamaji gives each tenant one.
func Root(key []byte) string {
	if len(key) == 0 || key[0] != '/' {
		return ""
	}
	end := bytes.IndexByte(key[1:], '/')
	if end < 0 {
		return ""
	}
	return string(key[1 : 1+end])
}

// prefixes numbers the prefixes that have been met. Number 0 is the rest. A prefix beyond the limit counts as the rest of its root, as long as there is room
// for roots, so that each root that has a key is known.
type prefixes struct {
	numbers map[string]uint32
	names   []string          // by number; empty for a rest
	rests   map[string]uint32 // by root
	roots   []string          // by number
}

func newPrefixes() *prefixes {
	return &prefixes{numbers: map[string]uint32{}, names: []string{""}, rests: map[string]uint32{}, roots: []string{""}}
}

func (p *prefixes) number(key []byte) uint32 {
	name := Prefix(key)
	if n, ok := p.numbers[name]; ok {
		return n
	}
	if len(p.numbers) < maxPrefixes {
		p.numbers[name] = p.add(name, Root(key))
		return p.numbers[name]
	}
	root := Root(key)
	n, ok := p.rests[root]
	switch {
	case ok:
	case len(p.rests) >= maxRoots:
		return 0
	default:
		n = p.add("", root)
		p.rests[root] = n
	}
	return n
}

// isRest tells apart the rests from the prefix of keys without a slash, which is empty, too.
func (p *prefixes) isRest(n uint32) bool {
	name := p.names[n]
	return name == "" && (n == 0 || p.numbers[name] != n)
}

func (p *prefixes) add(name, root string) uint32 {
	p.names, p.roots = append(p.names, name), append(p.roots, root)
	return uint32(len(p.names) - 1) //nolint:gosec // at most maxPrefixes and maxRoots
}
