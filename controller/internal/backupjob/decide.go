package backupjob

import "time"

// Verb is what a decision amounts to.
type Verb string

// Verbs. Skip: nothing to do or to say. Wait: a watch will wake us. Intend: save an intent. Do: one change of the outside world. Succeed and Fail: the
// final status.
const (
	Skip    Verb = "Skip"
	Wait    Verb = "Wait"
	Intend  Verb = "Intend"
	Do      Verb = "Do"
	Succeed Verb = "Succeed"
	Fail    Verb = "Fail"
)

// Action names what Do is about.
type Action string

// Actions.
const (
	ActionNone           Action = ""
	ActionCreateSnapshot Action = "CreateSnapshot" // under the lock, which it takes first
	ActionDeleteSnapshot Action = "DeleteSnapshot"
	ActionCreateBackup   Action = "CreateBackup"
	ActionCompleteBackup Action = "CompleteBackup"
)

// Stage tells which condition a decision speaks about, besides Ready.
type Stage string

// Stages. A later one implies that the earlier ones are behind.
const (
	StageNone      Stage = ""
	StageQueue     Stage = "Queue"     // not started: the phase is Pending
	StageResolving Stage = "Resolving" // Resolved is False
	StageResolved  Stage = "Resolved"  // Resolved is True
	StageSnapshot  Stage = "Snapshot"  // SnapshotStored is False
	StageStored    Stage = "Stored"    // SnapshotStored is True
)

// Decision is what to do next.
type Decision struct {
	Row     string
	Verb    Verb
	Action  Action
	Stage   Stage
	Reason  string
	Message string
	// Recheck is a net below the watches, and the clock for what no watch tells; 0 means none.
	Recheck time.Duration
}

// Row is one state: when it is reached and what follows.
type Row struct {
	Name string
	When func(Seen) bool
	Then func(Seen) Decision
}

// Decide takes the first row that applies. It is pure and total: some row applies to every state, and the last resort waits.
func Decide(s Seen) Decision {
	for _, row := range Rows {
		if row.When(s) {
			d := row.Then(s)
			d.Row = row.Name
			return d
		}
	}
	return Decision{Row: RowNone, Verb: Wait, Reason: "InternalError", Message: "no row of the table applies: this is a defect of the controller", Recheck: recheck}
}
