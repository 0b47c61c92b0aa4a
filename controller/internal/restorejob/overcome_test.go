package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

func TestOvercome(t *testing.T) {
	lost := Failure{Reason: backupsv1alpha1.ReasonDeadlineExceeded, Message: "no route"}
	never := Failure{Terminal: true, Reason: backupsv1alpha1.ReasonRecreateRefused, Message: "invalid"}
	late := func(s *Seen) { s.Now = now.Add(2 * time.Hour) }
	for _, c := range []struct {
		name    string
		seen    Seen
		failure Failure
		over    bool
		want    Decision
	}{
		{"it may heal", captured(), lost, false, Decision{}},
		{"a conflict is no failure", with(captured(), late), Failure{Conflict: true, Terminal: true}, false, Decision{}},
		{"the outcome is carried out without end", with(ended3(good), late), never, false, Decision{}},
		{"nothing to undo", started(), never, true, Decision{Verb: Fail}},
		{"C26 undone", captured(), never, true, Decision{Verb: Intend, Action: ActionConclude, Outcome: OutcomeFacts{Resume: true}}},
		{"C26 undone at the deadline", with(captured(), late), lost, true, Decision{Verb: Intend, Action: ActionConclude, Outcome: OutcomeFacts{Resume: true}}},
		{"C26 deleted and not recreated", gone(), never, true, Decision{Verb: Intend, Action: ActionConclude, Outcome: OutcomeFacts{Keep: true}}},
		{"C26 recreated", whole3(), never, true, Decision{Verb: Intend, Action: ActionConclude, Outcome: OutcomeFacts{Resume: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, over := Overcome(c.seen, Decision{Row: RowCapture}, c.failure)
			require.Equal(t, c.over, over)
			require.Equal(t, c.want.Verb, got.Verb)
			require.Equal(t, c.want.Action, got.Action)
			require.Equal(t, c.want.Outcome.Resume, got.Outcome.Resume)
			require.Equal(t, c.want.Outcome.Keep, got.Outcome.Keep)
			if over {
				require.Equal(t, c.failure.Reason, got.Reason)
				require.Contains(t, got.Message, c.failure.Message)
			}
		})
	}
}

func TestDeadlineIsFairToAClusterThatCameLate(t *testing.T) {
	s := whole3()
	require.Equal(t, s.Job.StartedAt.Add(time.Hour), s.Deadline())
	s.Cluster.CreatedAt = s.Job.StartedAt.Add(5 * time.Hour)
	require.Equal(t, s.Cluster.CreatedAt.Add(graceAfterRecreate), s.Deadline())
	s.Record.Timeout = time.Minute
	require.Equal(t, s.Cluster.CreatedAt.Add(time.Minute), s.Deadline())
	require.False(t, with(s, func(s *Seen) { s.Job.StartedAt = time.Time{}; s.Now = now.Add(99 * time.Hour) }).Expired(), "no start, no deadline")
}
