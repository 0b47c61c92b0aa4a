package restorejob

import (
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// ConsumersFacts are the Pods of tenants' API servers on the restored etcd.
type ConsumersFacts struct {
	// Listed tells that the record holds them.
	Listed bool
	// Changed tells that the record is behind what the Pods show.
	Changed bool
	// Told tells that the report shows what the record holds, or that there is none.
	Told bool
	// Next is the Pod that is to be evicted now, as namespace/name; empty where it is not the time, or where none is left.
	Next string
	// Waiting says what is waited for before the next one; empty where all is done.
	Waiting string
}

// recheckConsumers is the time between two looks at Pods in tenants' namespaces, which no watch covers.
const recheckConsumers = 2 * time.Second

// restarting tells that the consumers' turn has come: the restored cluster, or that of a rollback, is there, and its release works again. Every step is
// bounded in time, so what the Pods do decides nothing about the restore's success.
func (s Seen) restarting() bool {
	return decided(s) && s.Record.Outcome.returned() && !s.Record.DryRun && !s.Record.KeepConsumers && s.ours() && s.latched() &&
		!s.Job.Deleting && !s.Namespace.Terminating
}

// returned tells that a cluster is back whose revisions its clients have not followed.
func (o *OutcomeFacts) returned() bool {
	return o.Succeeded || o.Reason == backupsv1alpha1.ReasonRolledBack
}

func listConsumers(Seen) Decision {
	return intend(ActionListConsumers, backupsv1alpha1.ReasonRestartingConsumers, "the cluster is whole; looking for the control planes that use it")
}

func noteConsumers(Seen) Decision {
	return intend(ActionNoteConsumers, backupsv1alpha1.ReasonRestartingConsumers, "the cluster is whole; its control planes' API servers are being restarted")
}

func tellConsumers(Seen) Decision {
	return do(ActionTellConsumers, backupsv1alpha1.ReasonRestartingConsumers, "the cluster is whole; bringing the report up to date")
}

func evict(s Seen) Decision {
	return do(ActionEvict, backupsv1alpha1.ReasonRestartingConsumers, "the cluster is whole; evicting Pod %s", s.Consumers.Next)
}

func waitConsumers(s Seen) Decision {
	return wait(recheckConsumers, backupsv1alpha1.ReasonRestartingConsumers, "the cluster is whole; %s", s.Consumers.Waiting)
}
