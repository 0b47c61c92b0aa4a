package restorejob

import (
	"fmt"
	"strings"
)

// complete tells that the objects show a whole cluster: the operator is done with the current generation, all wanted members are there, ready and voters,
// and the cluster is a new one. Neither Available nor readyMembers decides alone, as the first appears before any member is ready and the second is stale
// while a member is being added.
func (s Seen) complete() bool {
	c := s.Cluster
	if !c.Reconciled || c.Deleting || c.Replicas < 1 || c.ReadyMembers != c.Replicas || int64(len(s.Members)) != c.Replicas || c.ClusterID == "" {
		return false
	}
	for _, m := range s.Members {
		if !m.Ready || !m.Voter {
			return false
		}
	}
	return true
}

// whole tells that the restore has succeeded: the objects are complete, each member's own answers agree, and clients can read.
func (s Seen) whole() bool { return s.complete() && s.mismatch() == "" }

// mismatch says what is not as it should be in the members' answers, or keeps clients from reading; empty when all is well.
func (s Seen) mismatch() string {
	problem, _ := s.judge()
	switch {
	case problem != "":
		return problem
	case !s.Read.Asked:
		return "no key was read yet"
	}
	return s.Read.Error
}

// wrong is a mismatch that is proven by an answer, not just an answer that is missing.
func (s Seen) wrong() string {
	for _, m := range s.Members {
		if problem, proven := s.judgeMember(m); proven {
			return fmt.Sprintf("member %s: %s", m.Name, problem)
		}
	}
	return ""
}

func (s Seen) judge() (problem string, proven bool) {
	if len(s.Members) == 0 {
		return "no member is known", false
	}
	for _, m := range s.Members {
		if problem, proven := s.judgeMember(m); problem != "" {
			return fmt.Sprintf("member %s: %s", m.Name, problem), proven
		}
	}
	return "", false
}

func (s Seen) judgeMember(m MemberFacts) (problem string, proven bool) {
	e := m.Etcd
	switch {
	case !e.Asked:
		return "it was not asked yet", false
	case e.Error != "":
		return e.Error, false
	case e.ClusterID == s.Record.OldClusterID:
		return fmt.Sprintf("its cluster ID %s is that of the former cluster", e.ClusterID), true
	case e.ClusterID != s.Cluster.ClusterID:
		return fmt.Sprintf("its cluster ID is %s, not %s", e.ClusterID, s.Cluster.ClusterID), true
	case e.Learner:
		return "it is a learner", false
	case e.Revision < s.Record.Revision:
		return fmt.Sprintf("it is at revision %d, but the restore starts at %d", e.Revision, s.Record.Revision), true
	case e.KeysKnown && e.Keys != s.Record.Keys:
		return fmt.Sprintf("it has %d keys at revision %d, but the snapshot has %d", e.Keys, s.Record.Revision, s.Record.Keys), true
	case len(e.Alarms) > 0:
		return fmt.Sprintf("it reports %s", strings.Join(e.Alarms, ", ")), true
	case !e.HashKnown:
		return "its hash is not known yet", false
	case e.Hash != s.Members[0].Etcd.Hash:
		return fmt.Sprintf("its data differ from those of %s at the same revision", s.Members[0].Name), s.Members[0].Etcd.HashKnown
	}
	return "", false
}

// serving tells that a member of the new cluster answers with the restored revision.
func (s Seen) serving() bool {
	if !s.ours() || s.Cluster.ClusterID == "" || s.Cluster.ClusterID == s.Record.OldClusterID {
		return false
	}
	for _, m := range s.Members {
		if e := m.Etcd; m.Ready && m.Voter && e.Asked && e.Error == "" && !e.Learner && e.ClusterID == s.Cluster.ClusterID && e.Revision >= s.Record.Revision {
			return true
		}
	}
	return false
}

func (s Seen) anyReady() bool {
	for _, m := range s.Members {
		if m.Ready {
			return true
		}
	}
	return false
}

func (s Seen) revision() int64 {
	var highest int64
	for _, m := range s.Members {
		highest = max(highest, m.Etcd.Revision)
	}
	return highest
}

func (s Seen) progress() string {
	ready, voters := 0, 0
	for _, m := range s.Members {
		if m.Ready {
			ready++
		}
		if m.Ready && m.Voter {
			voters++
		}
	}
	text := fmt.Sprintf("%d of %d members are ready, %d of them voters", ready, s.Cluster.Replicas, voters)
	if s.Cluster.ClusterID == "" {
		text += ", and no cluster ID is known"
	}
	return text
}
