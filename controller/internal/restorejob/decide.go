package restorejob

import "time"

// Verb is what a decision amounts to.
type Verb string

// Verbs. Rest: nothing is left to do. Wait: a watch will wake us. Intend: save an intent or a fact. Do: one change of the outside world. Succeed and Fail: the final status.
const (
	Rest    Verb = "Rest"
	Wait    Verb = "Wait"
	Intend  Verb = "Intend"
	Do      Verb = "Do"
	Succeed Verb = "Succeed"
	Fail    Verb = "Fail"
)

// Action names what Intend and Do are about.
type Action string

// Actions.
const (
	ActionStart            Action = "Start"            // status: Running, startedAt
	ActionLock             Action = "Lock"             // the Lease: the holder
	ActionHoldJob          Action = "HoldJob"          // our finalizer on the RestoreJob
	ActionCapture          Action = "Capture"          // the record
	ActionAnnounce         Action = "Announce"         // status: the captured spec's digest
	ActionIntendSuspend    Action = "IntendSuspend"    // the record
	ActionSuspend          Action = "Suspend"          // the HelmRelease
	ActionProve            Action = "Prove"            // the artifact
	ActionIntendPrepare    Action = "IntendPrepare"    // the record: key and revision of the prepared copy
	ActionPrepare          Action = "Prepare"          // the prepared copy
	ActionReport           Action = "Report"           // the ConfigMap of the report
	ActionListConsumers    Action = "ListConsumers"    // the record: Pods of the tenants' API servers
	ActionNoteConsumers    Action = "NoteConsumers"    // the record: how far they are
	ActionTellConsumers    Action = "TellConsumers"    // the ConfigMap of the report
	ActionEvict            Action = "Evict"            // a Pod of a tenant's API server
	ActionDisarm           Action = "Disarm"           // an alarm of etcd
	ActionDiscard          Action = "Discard"          // the prepared copy
	ActionFence            Action = "Fence"            // the Lease: the fence, and the holder where it is free
	ActionIntendDelete     Action = "IntendDelete"     // the record
	ActionExtend           Action = "Extend"           // the record: the deadline of a controller that takes over
	ActionReconsider       Action = "Reconsider"       // the record: the intent to delete is taken back
	ActionDelete           Action = "Delete"           // the EtcdCluster
	ActionAnnounceGone     Action = "AnnounceGone"     // status: nothing is left of the former cluster
	ActionRecreate         Action = "Recreate"         // the EtcdCluster
	ActionOwn              Action = "Own"              // the EtcdCluster's managed fields
	ActionConclude         Action = "Conclude"         // the record: how the restore ends
	ActionPutBackDeadline  Action = "PutBackDeadline"  // the EtcdCluster
	ActionResume           Action = "Resume"           // the HelmRelease
	ActionKeepRecord       Action = "KeepRecord"       // the record: it stays
	ActionLeaveSuspended   Action = "LeaveSuspended"   // the HelmRelease: our finalizer only
	ActionLiftFence        Action = "LiftFence"        // the Lease: the fence
	ActionUnlock           Action = "Unlock"           // the Lease: the holder, and the highest revision
	ActionForgetSuperseded Action = "ForgetSuperseded" // the older record
	ActionForget           Action = "Forget"           // the record
	ActionLetGo            Action = "LetGo"            // our finalizer on the RestoreJob
)

// Decision is what to do next.
type Decision struct {
	Row     string
	Verb    Verb
	Action  Action
	Reason  string
	Message string
	// Outcome belongs to ActionConclude.
	Outcome OutcomeFacts
	// Recheck is a net below the watches, and the clock for what no watch tells; 0 means none.
	Recheck time.Duration
}

// Row is one state: when it is reached and what follows.
type Row struct {
	Name string
	When func(Seen) bool
	Then func(Seen) Decision
}

// Decide takes the first row that applies. It is pure and total: the last row always applies.
func Decide(s Seen) Decision {
	for _, row := range Rows {
		if row.When(s) {
			d := row.Then(s)
			d.Row = row.Name
			return d
		}
	}
	return Decision{Row: "None", Verb: Wait, Reason: "InternalError", Message: "no row applies", Recheck: recheck}
}

// Expired tells whether the one deadline has passed. It counts from the start of the job, or of the rollback. What was begun late, or while nobody ran for a while, still gets a
// fair time.
func (s Seen) Expired() bool {
	if s.Job.StartedAt.IsZero() {
		return false
	}
	return !s.Now.Before(s.Deadline())
}

// graceAfterRecreate is the least time that a recreated cluster gets, unless the whole restore gets less. So does the former one to go, and, once, whatever is
// under way after the deletion when a controller takes over.
const graceAfterRecreate = 10 * time.Minute

// Deadline is when the waiting ends.
func (s Seen) Deadline() time.Time {
	timeout := s.timeout()
	deadline := s.startedAt().Add(timeout)
	if s.rollingBack() {
		deadline = s.Record.RollbackAt.Add(timeout)
	}
	var begun []time.Time
	if s.Record != nil && s.Record.DeleteIntended {
		if !s.Record.DeleteAt.After(s.Now.Add(skew)) {
			begun = append(begun, s.Record.DeleteAt)
		}
		if s.Record.GraceUntil.After(deadline) {
			deadline = s.Record.GraceUntil
		}
	}
	if s.ours() {
		begun = append(begun, s.Cluster.CreatedAt)
	}
	for _, at := range begun {
		if fair := at.Add(s.fairTime()); fair.After(deadline) {
			deadline = fair
		}
	}
	return deadline
}

// skew is how far the clocks of the controller and of the API server may be apart without a word.
const skew = 5 * time.Minute

// startedAt is status.startedAt, as far as the API server's clock bears it out: a restore starts before the end of its queue. A controller whose clock ran
// ahead when it wrote that does not keep it for ever.
func (s Seen) startedAt() time.Time {
	at := s.Job.StartedAt
	if end := s.queueEnd().Add(skew); s.Lock.Limit > 0 && !s.Job.CreatedAt.IsZero() && at.After(end) {
		return end
	}
	return at
}

func (s Seen) fairTime() time.Duration { return min(s.timeout(), graceAfterRecreate) }

// overdue tells that the deadline passed while no controller looked. The time that a new one gets is recorded, and given once: a controller that dies again and
// again must not put off the end.
func (s Seen) overdue() bool {
	return s.Expired() && s.Record.GraceUntil.IsZero() && s.Now.Before(s.graceUntil())
}

func (s Seen) graceUntil() time.Time { return s.Awake.Add(s.fairTime()) }

func (s Seen) timeout() time.Duration {
	if s.Record != nil {
		return s.Record.Timeout
	}
	if s.Request != nil && s.Request.Timeout > 0 {
		return s.Request.Timeout
	}
	return DefaultTimeout
}

func (s Seen) ours() bool { return s.Cluster != nil && s.Cluster.Ours }

// latched tells that a cluster is there that formed a quorum once: what Flux does to it cannot make an empty one.
func (s Seen) latched() bool {
	return s.Cluster != nil && !s.Cluster.Deleting && s.Cluster.ClusterID != ""
}

// held tells that the HelmRelease is as this job needs it: suspended, by us unless somebody else did so before, and with our finalizer.
func (s Seen) held() bool {
	return s.Release.Suspended && s.Release.Finalizer && (s.Release.Marked || s.Record.WasSuspended)
}
