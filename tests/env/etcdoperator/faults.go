package etcdoperator

import (
	"sync"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// Plan is how the double misbehaves. A nil function means that it does not.
type Plan struct {
	// Frozen: the operator reconciles nothing, as if it hung.
	Frozen bool
	// BlockPVC keeps a claim Pending.
	BlockPVC func(namespace, claim string) bool
	// FailSeed lets the etcd container of a cluster's seed crash at each start.
	FailSeed func(namespace, cluster string) bool
	// GiveUp ends the progress deadline of a cluster at once.
	GiveUp func(namespace, cluster string) bool
	// HoldContainer lets a container crash at each start.
	HoldContainer func(namespace, pod, container string) bool
	// Partition refuses peer connections between two members.
	Partition func(from, to string) bool
	// NoMembersBeyond stops a cluster from growing beyond a number of members; negative means no limit.
	NoMembersBeyond func(namespace, cluster string) int
	// HoldSnapshot leaves a snapshot in its phase.
	HoldSnapshot func(*etcdv1alpha2.EtcdSnapshot) bool
	// FailSnapshot ends a snapshot as Failed with this reason; empty lets it pass.
	FailSnapshot func(*etcdv1alpha2.EtcdSnapshot) (reason, message string)
	// SnapshotResult replaces the artifact record of a completed snapshot; nil leaves it out.
	SnapshotResult func(*etcdv1alpha2.EtcdSnapshot) *etcdv1alpha2.SnapshotArtifact
}

// Faults guards the plan.
type Faults struct {
	mu   sync.RWMutex
	plan Plan
}

// Update changes the plan while the double runs.
func (f *Faults) Update(change func(*Plan)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.plan)
}

// Clear lets the double behave.
func (f *Faults) Clear() { f.Update(func(p *Plan) { *p = Plan{} }) }

func (f *Faults) now() Plan {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.plan
}

// ask calls a fault's function if there is one.
func ask[A any](f func(A) bool, a A) bool { return f != nil && f(a) }
