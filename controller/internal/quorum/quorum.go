// Package quorum counts votes. It is pure: facts in, verdicts out.
package quorum

// Member is what one EtcdMember says of itself.
type Member struct {
	Name  string
	Ready bool // condition Ready is True
	Voter bool // status.isVoter; a learner is no voter
	// Current is false for a member that an earlier incarnation of the cluster owns (owner UID differs) or that is being deleted.
	Current bool
}

// Verdict says whether a cluster can serve.
type Verdict struct {
	ReadyVoters int
	Voters      int
	Needed      int // voters/2 + 1; at least 1
}

// CanServe is true when the ready voters reach the quorum.
func (v Verdict) CanServe() bool { return v.ReadyVoters >= v.Needed }

// Count counts the votes of the current members. Neither the cluster's Available condition nor its readyMembers takes part: the first appears before any
// member is ready, the second is stale while a member is being added.
func Count(members []Member) Verdict {
	var v Verdict
	for _, m := range members {
		if !m.Current || !m.Voter {
			continue
		}
		v.Voters++
		if m.Ready {
			v.ReadyVoters++
		}
	}
	v.Needed = Of(v.Voters)
	return v
}

// Of is the quorum of n voters: n/2 + 1.
func Of(n int) int { return n/2 + 1 }
