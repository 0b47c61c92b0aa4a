package contract

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sure is the distance in seconds above which two steps of a recording count as ordered: nearer ones depend on the machine.
const sure = 1.0

// differences tells in what the double's history departs from the recorded one: objects, their states in order, and the order of far-apart steps across objects.
func differences(recorded, played map[string]*life) []string {
	var out []string
	offsets := map[string]int{} // index in the recording minus index in the double
	for _, key := range sortedKeys(recorded, played) {
		r, p := recorded[key], played[key]
		switch {
		case r == nil && !p.existed:
			out = append(out, "only the double has "+key+": "+strings.Join(p.states, " → "))
		case p == nil && !r.existed:
			out = append(out, "the double lacks "+key+": "+strings.Join(r.states, " → "))
		case r == nil || p == nil:
		default:
			n := len(r.states)
			if r.existed || p.existed {
				n = min(n, len(p.states)) // what existed may be seen from a later state on
			}
			if !slices.Equal(tail(r.states, n), tail(p.states, n)) || n != len(p.states) && !p.existed {
				out = append(out, fmt.Sprintf("%s\n  recorded %s\n  played   %s", key, strings.Join(r.states, " → "), strings.Join(p.states, " → ")))
			}
			offsets[key] = len(r.states) - len(p.states)
		}
	}
	if len(out) > 0 {
		return out
	}
	return misordered(recorded, played, offsets)
}

type step struct {
	key   string
	index int
}

func misordered(recorded, played map[string]*life, offsets map[string]int) []string {
	var steps []step
	for key := range offsets {
		if ordered(key) {
			for i := range recorded[key].states {
				if j := i - offsets[key]; j >= 0 && (i > 0 || !recorded[key].existed) {
					steps = append(steps, step{key, i})
				}
			}
		}
	}
	var out []string
	for _, a := range steps {
		for _, b := range steps {
			ra, rb := recorded[a.key].at[a.index], recorded[b.key].at[b.index]
			if rb.seconds-ra.seconds <= sure {
				continue
			}
			pa, pb := played[a.key].at[a.index-offsets[a.key]], played[b.key].at[b.index-offsets[b.key]]
			if pa.revision >= pb.revision {
				out = append(out, fmt.Sprintf("%s %q comes after %s %q", a.key, recorded[a.key].states[a.index], b.key, recorded[b.key].states[b.index]))
			}
		}
	}
	sort.Strings(out)
	return out
}

// ordered names the kinds whose steps a controller may wait for. Pods of different members end in any order.
func ordered(key string) bool {
	return strings.HasPrefix(key, "Etcd") || strings.HasPrefix(key, "Job/")
}

func tail(s []string, n int) []string { return s[max(0, len(s)-n):] }

func sortedKeys(maps ...map[string]*life) []string {
	var keys []string
	for _, m := range maps {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestDifferencesAreSeen(t *testing.T) {
	of := func(existed bool, states ...string) *life {
		l := &life{states: states, existed: existed}
		for i := range states {
			l.at = append(l.at, moment{float64(2 * i), int64(i)})
		}
		return l
	}
	same := func() map[string]*life {
		return map[string]*life{"EtcdCluster/etcd": of(false, "", "a", "b"), "EtcdMember/m1": of(true, "x", "gone")}
	}
	require.Empty(t, differences(same(), same()))
	for name, change := range map[string]func(map[string]*life){
		"a state more":  func(m map[string]*life) { m["EtcdCluster/etcd"] = of(false, "", "a", "z", "b") },
		"another order": func(m map[string]*life) { m["EtcdCluster/etcd"] = of(false, "", "b", "a") },
		"a state less":  func(m map[string]*life) { m["EtcdCluster/etcd"] = of(false, "", "b") },
		"missing":       func(m map[string]*life) { delete(m, "EtcdCluster/etcd") },
		"one more":      func(m map[string]*life) { m["EtcdMember/m2"] = of(false, "") },
		"across":        func(m map[string]*life) { m["EtcdMember/m1"].at[1].revision = -1 },
	} {
		played := same()
		change(played)
		require.NotEmpty(t, differences(same(), played), name)
	}
	seenLater := same()
	seenLater["EtcdMember/m1"] = of(true, "w", "x", "gone")
	seenLater["EtcdMember/m1"].at[2].revision = 1
	require.Empty(t, differences(same(), seenLater), "what existed may be seen from a later state on")
}
