package artifact

import "iter"

// rootUser is the user that etcd's access control cannot do without.
const rootUser = "root"

// Difference is what a restore would change in the set of live keys. It does not look at values.
type Difference struct {
	Vanish Change `json:"vanish"` // in the list, not in the snapshot
	Appear Change `json:"appear"` // in the snapshot, not in the list
}

// Change is a number of keys by prefix; the prefix of those beyond the limit is empty.
type Change struct {
	Keys     int64            `json:"keys"`
	Prefixes map[string]int64 `json:"prefixes,omitempty"`
}

func (c *Change) add(prefix string) {
	if c.Prefixes == nil {
		c.Prefixes = map[string]int64{}
	}
	c.Keys++
	c.Prefixes[prefix]++
}

// compare takes the list of keys that the live ones are compared with.
func (r *report) compare(list iter.Seq2[[]byte, error]) error {
	r.facts.Difference = &Difference{}
	for key, err := range list {
		if err != nil {
			return err
		}
		if len(key) == 0 {
			continue
		}
		if err := r.tally.list(key, r.prefixes.number(key)); err != nil {
			return err
		}
	}
	return nil
}

// finish counts what the walk has gathered.
func (r *report) finish(list iter.Seq2[[]byte, error]) (Facts, error) {
	if list != nil {
		if err := r.compare(list); err != nil {
			return Facts{}, err
		}
	}
	counts := make([]Count, len(r.prefixes.names))
	err := r.tally.each(func(s keyState) {
		if s.flags&stateLive != 0 {
			counts[s.prefix].Keys++
			counts[s.prefix].Bytes += s.bytes
		}
		if d := r.facts.Difference; d != nil {
			d.count(s, r.prefixes.names[s.prefix])
		}
	})
	if err != nil {
		return Facts{}, err
	}
	for i, c := range counts {
		r.facts.Keys.Keys += c.Keys
		r.facts.Keys.Bytes += c.Bytes
		switch {
		case c.Keys == 0:
		case r.prefixes.isRest(uint32(i)): //nolint:gosec // at most maxPrefixes and maxRoots
			r.rest(c)
		default:
			r.facts.Prefixes[r.prefixes.names[i]] = c
		}
		if root := r.prefixes.roots[i]; c.Keys > 0 && root != "" {
			r.facts.Roots[root] += c.Keys
		}
	}
	r.facts.MoreRoots = counts[0].Keys > 0
	return r.facts, nil
}

func (r *report) rest(c Count) {
	if r.facts.Rest == nil {
		r.facts.Rest = &Count{}
	}
	r.facts.Rest.Keys += c.Keys
	r.facts.Rest.Bytes += c.Bytes
}

func (d *Difference) count(s keyState, prefix string) {
	switch s.flags {
	case stateLive:
		d.Appear.add(prefix)
	case stateListed:
		d.Vanish.add(prefix)
	}
}
