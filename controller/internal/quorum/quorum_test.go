package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	voter := Member{Ready: true, Voter: true, Current: true}
	down := Member{Voter: true, Current: true}
	learner := Member{Ready: true, Current: true}
	old := Member{Ready: true, Voter: true}
	for _, c := range []struct {
		name    string
		members []Member
		want    Verdict
		serve   bool
	}{
		{"nobody", nil, Verdict{0, 0, 1}, false},
		{"one", []Member{voter}, Verdict{1, 1, 1}, true},
		{"one of three is down", []Member{voter, voter, down}, Verdict{2, 3, 2}, true},
		{"two of three are down", []Member{voter, down, down}, Verdict{1, 3, 2}, false},
		{"a learner has no vote", []Member{voter, learner}, Verdict{1, 1, 1}, true},
		{"only a learner", []Member{learner}, Verdict{0, 0, 1}, false},
		{"members of the former cluster do not count", []Member{old, old, old}, Verdict{0, 0, 1}, false},
		{"two of four are down", []Member{voter, voter, down, down}, Verdict{2, 4, 3}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Count(c.members)
			require.Equal(t, c.want, got)
			require.Equal(t, c.serve, got.CanServe())
		})
	}
}
