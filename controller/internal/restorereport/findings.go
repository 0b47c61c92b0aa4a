package restorereport

import (
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

const (
	// maxPrefixes bounds each list of prefixes.
	maxPrefixes = 100
	// maxTenants bounds the list of first path segments that the record keeps.
	maxTenants = 500
	maxName    = 253
)

// Find boils the facts of a snapshot down to what a report needs of them.
func Find(f artifact.Facts, live Live) *record.Findings {
	found := &record.Findings{
		DatabaseBytes: f.Keys.Bytes, LiveMember: live.Member, LiveRevision: live.Revision, LiveKeys: live.Keys, LiveError: live.Error, MoreTenants: f.MoreRoots,
	}
	if f.Difference != nil && live.Error == "" {
		found.Vanish, found.Appear = top(f.Difference.Vanish), top(f.Difference.Appear)
	}
	for _, root := range slices.Sorted(maps.Keys(f.Roots)) {
		if len(root) > maxName || len(found.Tenants) == maxTenants {
			found.MoreTenants = true
			continue
		}
		found.Tenants = append(found.Tenants, root)
	}
	return found
}

// top keeps the prefixes with the most keys. What is beyond the limit, or has no prefix, counts as the rest.
func top(c artifact.Change) *record.Change {
	out := &record.Change{Keys: c.Keys}
	for prefix, keys := range c.Prefixes {
		if prefix == "" {
			out.Rest += keys
			continue
		}
		out.Prefixes = append(out.Prefixes, record.PrefixCount{Prefix: printable(prefix), Keys: keys})
	}
	sort.Slice(out.Prefixes, func(i, j int) bool {
		a, b := out.Prefixes[i], out.Prefixes[j]
		if a.Keys != b.Keys {
			return a.Keys > b.Keys
		}
		return a.Prefix < b.Prefix
	})
	if len(out.Prefixes) > maxPrefixes {
		for _, p := range out.Prefixes[maxPrefixes:] {
			out.Rest += p.Keys
		}
		out.Prefixes = out.Prefixes[:maxPrefixes]
	}
	return out
}

// printable makes a part of a key, which may be any bytes, fit for a person and for JSON.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		s = strings.Trim(strconv.QuoteToASCII(s), `"`)
	}
	if runes := []rune(s); len(runes) > maxName {
		return string(runes[:maxName]) + "…"
	}
	return s
}

// Measure sums up past restores.
func Measure(past []Past) Downtime {
	if len(past) == 0 {
		return Downtime{}
	}
	past = slices.Clone(past)
	sort.Slice(past, func(i, j int) bool { return past[i].EndedAt.Before(past[j].EndedAt) })
	d := Downtime{Restores: len(past), LastSeconds: int64(past[len(past)-1].Downtime.Seconds())}
	sort.Slice(past, func(i, j int) bool { return past[i].Downtime < past[j].Downtime })
	d.MedianSeconds, d.MaxSeconds = int64(past[len(past)/2].Downtime.Seconds()), int64(past[len(past)-1].Downtime.Seconds())
	return d
}
