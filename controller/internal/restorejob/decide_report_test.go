package restorejob

import (
	"slices"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// dryRun has proven the snapshot and written its report.
func dryRun() Seen {
	return with(captured(), func(s *Seen) {
		s.Record.DryRun, s.Record.PreparedKey, s.Gates.Prepared = true, "", false
		s.Record.SuspendIntended, s.Record.HasRelease, s.Release = false, false, &ReleaseFacts{Name: "etcd"}
	})
}

func reportCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, change func(*Seen)) decideCase {
		return decideCase{row, name, with(captured(), change), verb, action, reason}
	}
	return []decideCase{
		at(RowReport, "not reported", Do, ActionReport, backupsv1alpha1.ReasonReporting, func(s *Seen) { s.Reported = false }),
		at(RowUnfit, "what is refused leaves no report", Intend, ActionConclude, "x", func(s *Seen) { s.Unfit, s.Reported = &Problem{"x", "y"}, false }),
		{RowReport, "a dry run reports what does not fit", with(dryRun(), func(s *Seen) { s.Unfit, s.Reported = &Problem{"x", "y"}, false }), Do, ActionReport, ""},
		{RowUnfit, "and fails for it", with(dryRun(), func(s *Seen) { s.Unfit = &Problem{"x", "y"} }), Intend, ActionConclude, "x"},
		{RowDryRun, "a dry run ends here", dryRun(), Intend, ActionConclude, backupsv1alpha1.ReasonDryRun},
	}
}

func alarmCases() []decideCase {
	at := func(row, name string, verb Verb, action Action, reason string, from Seen, change func(*Seen)) decideCase {
		return decideCase{row, name, with(from, change), verb, action, reason}
	}
	return []decideCase{
		at(RowDisarm, "an alarm came along", Do, ActionDisarm, backupsv1alpha1.ReasonDisarming, whole3(), func(s *Seen) {
			s.Cluster.QuotaBytes, s.Members[1].Etcd.Alarms = 10, []string{"memberID:1 alarm:NOSPACE "}
		}),
		at(RowDisarm, "an alarm keeps the first member from being ready", Do, ActionDisarm, "", whole3(), func(s *Seen) {
			s.Cluster.QuotaBytes, s.Cluster.Reconciled, s.Members = 10, false, []MemberFacts{member("m1")}
			s.Members[0].Ready, s.Members[0].Etcd.Alarms = false, []string{"memberID:1 alarm:NOSPACE "}
		}),
		at(RowWaitServing, "an answer of a member that is not ready serves nobody", Wait, "", "", whole3(), func(s *Seen) { s.Cluster.Reconciled, s.Members = false, s.Members[:1]; s.Members[0].Ready = false }),
		at(RowVerify, "a full database keeps its alarm", Wait, "", backupsv1alpha1.ReasonVerifying, whole3(), func(s *Seen) {
			s.Cluster.QuotaBytes, s.Members[1].Etcd.Alarms, s.Members[2].Etcd.DBSize = 10, []string{"memberID:1 alarm:NOSPACE "}, 10
		}),
	}
}

func consumerCases() []decideCase {
	resumed := with(ended3(good), func(s *Seen) {
		s.Cluster.DeadlineRaised, s.Release = false, &ReleaseFacts{Name: "etcd"}
		s.Lock.Fence, s.Consumers = false, ConsumersFacts{Listed: true, Told: true}
	})
	return []decideCase{
		{RowListConsumers, "then the consumers", with(resumed, func(s *Seen) { s.Consumers = ConsumersFacts{} }), Intend, ActionListConsumers, backupsv1alpha1.ReasonRestartingConsumers},
		{RowNoteConsumers, "a Pod has gone", with(resumed, func(s *Seen) { s.Consumers.Changed, s.Consumers.Told = true, false }), Intend, ActionNoteConsumers, ""},
		{RowTellConsumers, "the report is behind", with(resumed, func(s *Seen) { s.Consumers.Told, s.Consumers.Next = false, "a/b" }), Do, ActionTellConsumers, ""},
		{RowEvict, "the next Pod", with(resumed, func(s *Seen) { s.Consumers.Next = "a/b" }), Do, ActionEvict, ""},
		{RowWaitConsumers, "a replacement is not ready", with(resumed, func(s *Seen) { s.Consumers.Waiting = "waiting" }), Wait, "", backupsv1alpha1.ReasonRestartingConsumers},
		{RowSucceeded, "the consumers are not to be restarted", with(resumed, func(s *Seen) { s.Consumers, s.Record.KeepConsumers = ConsumersFacts{}, true }), Succeed, "", ""},
		{RowSucceeded, "the job is deleted while consumers wait", with(resumed, func(s *Seen) { s.Consumers.Next, s.Job.Deleting = "a/b", true }), Succeed, "", ""},
		{RowSucceeded, "a dry run leaves older records and consumers alone", with(dryRun(), func(s *Seen) { s.Record.Outcome, s.Lock.Fence = &good, false }), Succeed, "", ""},
		{RowForget, "a dry run leaves the older record", with(finished3(okPhase, good), func(s *Seen) { s.Record.DryRun, s.Record.Superseded = true, "restore-x" }), Do, ActionForget, ""},
	}
}

// brokenReportRule names the rule of dry runs, alarms and consumers that a decision breaks.
func brokenReportRule(s Seen, d Decision) string {
	if s.Record != nil && s.Record.DryRun && reversible(s) && slices.Contains([]Action{ActionIntendPrepare, ActionPrepare, ActionIntendSafety, ActionRequestSafety, ActionIntendKeep, ActionIntendSuspend, ActionSuspend, ActionFence}, d.Action) {
		return "a dry run changes nothing"
	}
	if (d.Action == ActionEvict || d.Action == ActionDisarm) && (!s.ours() || !s.latched()) {
		return "consumers and alarms have their turn on a restored cluster only"
	}
	return ""
}
