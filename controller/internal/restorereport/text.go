package restorereport

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// maxDocument is what each of the two documents may take at most: a ConfigMap holds 1 MiB.
const maxDocument = 480 << 10

// textPrefixes and textNames are what a person wants to see of a list.
const (
	textPrefixes = 20
	textNames    = 20
)

// Data gives the two documents. The lists are bounded, so the size is; a report that is too large nonetheless loses its lists.
func (r Report) Data() (map[string]string, error) {
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	if len(document) > maxDocument {
		r.shrink()
		if document, err = json.MarshalIndent(r, "", "  "); err != nil {
			return nil, fmt.Errorf("encode the report: %w", err)
		}
	}
	return map[string]string{KeyJSON: string(document) + "\n", KeyText: r.Text()}, nil
}

func (r *Report) shrink() {
	for _, n := range []*Names{&r.ControlPlanes.Affected, &r.ControlPlanes.Lost, &r.ControlPlanes.Replaced, &r.ControlPlanes.Unknown, &r.ControlPlanes.Deleted} {
		n.Names = n.Names[:min(len(n.Names), textNames)]
	}
	if r.Consumers != nil {
		c := *r.Consumers
		c.Failed.Names, c.Pending.Names = c.Failed.Names[:min(len(c.Failed.Names), textNames)], nil
		c.Trouble = c.Trouble[:min(len(c.Trouble), textNames)]
		r.Consumers = &c
	}
}

// Text is the report for a person.
func (r Report) Text() string {
	b := &strings.Builder{}
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(b, format+"\n", args...) }
	what := "Restore"
	if r.DryRun {
		what = "Dry run of a restore"
	}
	line("%s of %s/%s from Backup %s (RestoreJob %s), written %s", what, r.Namespace, r.Application, r.Backup, r.RestoreJob, r.WrittenAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	taken := "at an unknown time"
	if !r.Snapshot.TakenAt.IsZero() {
		taken = r.Snapshot.TakenAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	line("Snapshot:  taken %s, etcd %s, revision %d, %d keys, %d bytes in them, %d bytes in S3", taken, or(r.Snapshot.EtcdVersion, "of unknown version"),
		r.Snapshot.Revision, r.Snapshot.Keys, r.Snapshot.Bytes, r.Snapshot.ObjectBytes)
	if r.Live.Error != "" {
		line("Live:      not compared: %s", r.Live.Error)
	} else {
		line("Live:      member %s is at revision %d with %d keys", r.Live.Member, r.Live.Revision, r.Live.Keys)
	}
	if r.RevisionDistance != nil {
		line("Distance:  %d revisions", *r.RevisionDistance)
	}
	change(line, "Vanish:   ", r.Vanish)
	change(line, "Appear:   ", r.Appear)
	r.planes(line)
	r.fit(line)
	if r.Downtime.Restores == 0 {
		line("Downtime:  unknown, as no restore of this application has been measured")
	} else {
		line("Downtime:  %d s the last time, %d s as a median of %d, %d s at most", r.Downtime.LastSeconds, r.Downtime.MedianSeconds, r.Downtime.Restores, r.Downtime.MaxSeconds)
	}
	if c := r.Consumers; c != nil {
		line("API servers of control planes: %s", c.Mark())
		names(line, "  failed", c.Failed)
		for _, t := range c.Trouble[:min(len(c.Trouble), textNames)] {
			line("  trouble: %s", t)
		}
		if c.LeftOut > 0 {
			line("  %d beyond the limit were left alone", c.LeftOut)
		}
	}
	return b.String()
}

type printer func(format string, args ...any)

func change(line printer, title string, c *record.Change) {
	if c == nil {
		return
	}
	line("%s %d keys", title, c.Keys)
	rest := c.Rest
	for i, p := range c.Prefixes {
		if i < textPrefixes {
			line("  %10d %s", p.Keys, p.Prefix)
		} else {
			rest += p.Keys
		}
	}
	if rest > 0 {
		line("  %10d elsewhere", rest)
	}
}

func (r Report) planes(line printer) {
	c := r.ControlPlanes
	switch {
	case c.Error != "":
		line("Control planes: unknown: %s", c.Error)
		return
	case len(c.DataStores) == 0:
		line("Control planes: none, as no DataStore points here")
		return
	}
	line("Control planes on DataStore %s:", strings.Join(c.DataStores, ", "))
	names(line, "  affected", c.Affected)
	names(line, "  lost, as the snapshot holds nothing of them", c.Lost)
	names(line, "  created since under a name whose older data come back", c.Replaced)
	names(line, "  unknown", c.Unknown)
	names(line, "  deleted since; their keys come back", c.Deleted)
}

func names(line printer, title string, n Names) {
	if n.Count == 0 {
		return
	}
	listed := n.Names[:min(len(n.Names), textNames)]
	more := ""
	if n.Count > len(listed) {
		more = fmt.Sprintf(" and %d more", n.Count-len(listed))
	}
	line("%s: %d: %s%s", title, n.Count, strings.Join(listed, ", "), more)
}

func (r Report) fit(line printer) {
	f := r.Fit
	if !f.Fits {
		line("Fit:       NO: %s: %s", f.Reason, f.Message)
		return
	}
	quota := "etcd's default quota"
	if f.QuotaBytes > 0 {
		quota = fmt.Sprintf("a quota of %d", f.QuotaBytes)
	}
	line("Fit:       yes: %d bytes in use, %s, a volume of %d; etcd %s onto %s; auth %v and %v", f.InUseBytes, quota, f.VolumeBytes,
		or(f.SnapshotVersion, "unknown"), f.ClusterVersion, f.SnapshotAuth, f.ClusterAuth)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
