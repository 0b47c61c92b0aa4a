package plan

import (
	"fmt"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Seen is everything that a decision rests on: facts about one Plan at one moment.
type Seen struct {
	Now         time.Time
	Deleting    bool
	Ours        bool   // its application is an Etcd of apps.cozystack.io
	Schedule    string // what is wrong with the schedule; empty: nothing
	Application string // the application's name
	Gone        bool   // neither a cluster nor a release of that name is there
	Next        time.Time
	Due         time.Time     // the tick to run now; zero: none
	Missed      time.Time     // the first tick that was missed; zero: none
	Trouble     string        // the error that the last pass ended with; empty: none
	Jitter      time.Duration // delay of the due tick
	Job         string        // name of the job of the due tick
	JobExists   bool
	Taken       bool   // a job of that name is not a run of this plan
	Active      string // a run that is under way, named by kind and name
}

// Verb is what a decision amounts to.
type Verb string

// Verbs. Skip: nothing to do or to say. Wait: until Recheck. Record: save how a tick ended. Create: make the job of the tick, and record it. Refuse: the API
// server did not take that job; the next tick tries again. Stop: nothing more happens before somebody changes something.
const (
	Skip   Verb = "Skip"
	Wait   Verb = "Wait"
	Record Verb = "Record"
	Create Verb = "Create"
	Refuse Verb = "Refuse"
	Stop   Verb = "Stop"
)

// Decision is what to do next.
type Decision struct {
	Row     string
	Verb    Verb
	Reason  string
	Message string
	// Tick is what Record and Create have dealt with: no tick up to it is run any more.
	Tick    time.Time
	Recheck time.Duration
}

// Row is one state: when it is reached and what follows.
type Row struct {
	Name string
	When func(Seen) bool
	Then func(Seen) Decision
}

// Names of the rows.
const (
	RowNone            = "None"
	RowDeleting        = "Deleting"
	RowForeign         = "Foreign"
	RowScheduleInvalid = "ScheduleInvalid"
	RowApplicationGone = "ApplicationGone"
	RowMade            = "Made"
	RowTaken           = "Taken"
	RowJitter          = "Jitter"
	RowSkipped         = "Skipped"
	RowRun             = "Run"
	RowMissed          = "Missed"
	RowIdle            = "Idle"
)

// Rows is the table of states, in the order in which they are tried.
var Rows = []Row{
	{RowDeleting, func(s Seen) bool { return s.Deleting }, skip},
	{RowForeign, func(s Seen) bool { return !s.Ours }, skip},
	{RowScheduleInvalid, func(s Seen) bool { return s.Schedule != "" }, scheduleInvalid},
	{RowApplicationGone, func(s Seen) bool { return s.Gone }, applicationGone},
	{RowMade, func(s Seen) bool { return !s.Due.IsZero() && s.JobExists }, made},
	{RowTaken, func(s Seen) bool { return !s.Due.IsZero() && s.Taken }, taken},
	{RowJitter, func(s Seen) bool { return !s.Due.IsZero() && s.Now.Before(s.Due.Add(s.Jitter)) }, jitter},
	{RowSkipped, func(s Seen) bool { return !s.Due.IsZero() && s.Active != "" }, skipped},
	{RowRun, func(s Seen) bool { return !s.Due.IsZero() }, run},
	{RowMissed, func(s Seen) bool { return !s.Missed.IsZero() }, missed},
	{RowIdle, func(s Seen) bool { return !s.Next.IsZero() }, idle},
}

// Decide takes the first row that applies. It is pure and total.
func Decide(s Seen) Decision {
	for _, row := range Rows {
		if row.When(s) {
			d := row.Then(s)
			d.Row = row.Name
			return d
		}
	}
	return Decision{Row: RowNone, Verb: Stop, Reason: backupsv1alpha1.ReasonInternalError, Message: "no row of the table applies: this is a defect of the controller"}
}

func skip(Seen) Decision { return Decision{Verb: Skip} }

func scheduleInvalid(s Seen) Decision {
	return Decision{Verb: Stop, Reason: backupsv1alpha1.ReasonScheduleInvalid, Message: s.Schedule}
}

func applicationGone(s Seen) Decision {
	return Decision{Verb: Stop, Reason: backupsv1alpha1.ReasonApplicationNotFound,
		Message: fmt.Sprintf("spec.applicationRef.name: there is no etcd %q in this namespace: no runs until there is one", s.Application)}
}

func made(s Seen) Decision { return record(s, backupsv1alpha1.ReasonScheduled, "BackupJob %q", s.Job) }

func taken(s Seen) Decision {
	return record(s, backupsv1alpha1.ReasonRunSkipped, "skipped, as BackupJob %q has the name of this run and is not of this Plan: delete it", s.Job)
}

func jitter(s Seen) Decision {
	return Decision{Verb: Wait, Reason: backupsv1alpha1.ReasonScheduled, Message: nextRun(s.Due), Recheck: s.Due.Add(s.Jitter).Sub(s.Now)}
}

func skipped(s Seen) Decision {
	return record(s, backupsv1alpha1.ReasonRunSkipped, "skipped, as %s is still under way", s.Active)
}

func run(s Seen) Decision {
	d := made(s)
	d.Verb = Create
	return d
}

func missed(s Seen) Decision {
	d := record(s, backupsv1alpha1.ReasonRunMissed, "the run of %s could not be started in time and is not made up for", s.Missed.UTC().Format(time.RFC3339))
	if s.Trouble != "" {
		d.Message += ": " + s.Trouble
	}
	d.Tick = s.Now
	return d
}

func idle(s Seen) Decision {
	return Decision{Verb: Wait, Reason: backupsv1alpha1.ReasonScheduled, Message: nextRun(s.Next), Recheck: s.Next.Sub(s.Now)}
}

func record(s Seen, reason, format string, args ...any) Decision {
	return Decision{Verb: Record, Reason: reason, Message: fmt.Sprintf(format, args...), Tick: s.Due, Recheck: s.Next.Sub(s.Now)}
}

func nextRun(t time.Time) string { return "next run at " + t.UTC().Format(time.RFC3339) }
