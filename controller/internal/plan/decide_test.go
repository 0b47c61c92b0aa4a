package plan

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// flipRow negates the predicate of the row that FLIP_ROW names: a script tries each row in turn, and some test must fail.
func flipRow() {
	name := os.Getenv("FLIP_ROW")
	for i, row := range Rows {
		if row.Name == name {
			Rows[i].When = func(s Seen) bool { return !row.When(s) }
		}
	}
}

// due is a plan whose tick has come.
func due() Seen {
	return Seen{Now: noon.Add(time.Minute), Ours: true, Application: "etcd", Next: noon.Add(time.Hour), Due: noon, Jitter: 10 * time.Second, Job: "nightly-1"}
}

func with(edits ...func(*Seen)) Seen {
	s := due()
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

type example struct {
	name    string
	seen    Seen
	row     string
	verb    Verb
	reason  string
	tick    time.Time
	recheck time.Duration
}

var examples = []example{
	{"a plan that is being deleted", with(func(s *Seen) { s.Deleting = true }), RowDeleting, Skip, "", time.Time{}, 0},
	{"a plan for another kind of application", with(func(s *Seen) { s.Ours = false }), RowForeign, Skip, "", time.Time{}, 0},
	{"C44 a schedule that is refused", with(func(s *Seen) { s.Schedule = "no" }), RowScheduleInvalid, Stop, backupsv1alpha1.ReasonScheduleInvalid, time.Time{}, 0},
	{"C60 the application is gone", with(func(s *Seen) { s.Gone = true }), RowApplicationGone, Stop, backupsv1alpha1.ReasonApplicationNotFound, time.Time{}, 0},
	{"C61 the job is there already", with(func(s *Seen) { s.JobExists = true }), RowMade, Record, backupsv1alpha1.ReasonScheduled, noon, 59 * time.Minute},
	{"C61 the run's name is taken by somebody else", with(func(s *Seen) { s.Taken = true }), RowTaken, Record, backupsv1alpha1.ReasonRunSkipped, noon, 59 * time.Minute},
	{"C46 plans with one schedule keep apart", with(func(s *Seen) { s.Now = noon.Add(9 * time.Second) }), RowJitter, Wait, backupsv1alpha1.ReasonScheduled, time.Time{}, time.Second},
	{"C46 the former run is under way", with(func(s *Seen) { s.Active = "BackupJob \"x\"" }), RowSkipped, Record, backupsv1alpha1.ReasonRunSkipped, noon, 59 * time.Minute},
	{"due", due(), RowRun, Create, backupsv1alpha1.ReasonScheduled, noon, 59 * time.Minute},
	{"missed", with(func(s *Seen) { s.Due, s.Missed = time.Time{}, noon.Add(-time.Hour) }), RowMissed, Record, backupsv1alpha1.ReasonRunMissed, noon.Add(time.Minute), 59 * time.Minute},
	{"missed for a reason", with(func(s *Seen) { s.Due, s.Missed, s.Trouble = time.Time{}, noon.Add(-time.Hour), "no right" }), RowMissed, Record, backupsv1alpha1.ReasonRunMissed, noon.Add(time.Minute), 59 * time.Minute},
	{"nothing due", with(func(s *Seen) { s.Due = time.Time{} }), RowIdle, Wait, backupsv1alpha1.ReasonScheduled, time.Time{}, 59 * time.Minute},
	{"no fact, no action", Seen{Ours: true}, RowNone, Stop, backupsv1alpha1.ReasonInternalError, time.Time{}, 0},
}

func TestDecide(t *testing.T) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			d := Decide(e.seen)
			require.Equal(t, e.row, d.Row)
			require.Equal(t, e.verb, d.Verb)
			require.Equal(t, e.reason, d.Reason)
			require.Equal(t, e.tick, d.Tick)
			require.Equal(t, e.recheck, d.Recheck)
		})
	}
}

func TestEveryRowHasAnExampleAndAPlaceInTheStatesPage(t *testing.T) {
	page, err := os.ReadFile("STATES.md")
	require.NoError(t, err)
	var listed, rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	for i, row := range Rows {
		rows = append(rows, row.Name)
		require.True(t, slices.ContainsFunc(examples, func(e example) bool {
			return e.row == Rows[i].Name
		}), row.Name)
	}
	require.Equal(t, rows, listed)
}
