package artifact

import "math"

const (
	// bumpSlack covers what is written between the last look at the live cluster and its deletion.
	bumpSlack = 1_000_000
	// bumpBlind covers what was written where nobody knows: a revision for each of 1,500 writes a second over a week.
	bumpBlind = 1_000_000_000
	// maxRevision leaves room for the restores of many years before a revision stops fitting 63 bits.
	maxRevision = math.MaxInt64 / 2
)

// Revisions is what is known of the revisions that clients may have seen.
type Revisions struct {
	Snapshot int64
	// Live are those that members answered with.
	Live []int64
	// HighWater is the highest that any restore before this one has started at or seen; 0 where none is recorded.
	HighWater int64
	// Quorum tells that the members behind Live are a quorum of the voters. A revision that a client has seen is known to a quorum, so one of them has it.
	Quorum bool
}

// Bump is the increment by which the restored revision passes every revision that a client may have seen. Without a quorum's answers the distance to
// the highest known revision is far.
func Bump(r Revisions) int64 {
	highest := max(r.Snapshot, r.HighWater)
	for _, live := range r.Live {
		highest = max(highest, live)
	}
	slack := int64(bumpSlack)
	if !r.Quorum {
		slack = bumpBlind
	}
	if highest > maxRevision {
		slack = bumpSlack
	}
	return highest - r.Snapshot + slack
}
