// Package lock lets one job at a time work on an application: a restore, a change or a backup.
//
// The lock is one Lease per application, in its namespace, whose holderIdentity names the holder with its UID. It is taken by compare-and-swap: every write
// replaces exactly the version that was read. Nobody owns the Lease and it outlives its holders, because it also carries what lasts longer than they do: the
// fence against an empty cluster, which the admission policy of charts/etcd-controller reads from it, and the highest revision that clients of the
// application may have seen.
package lock

import (
	"maps"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels and annotations of the Lease. The policy of charts/etcd-controller reads those of the fence.
const (
	// Label is on every lock.
	Label      = "cozy-etcd.io/lock"
	LabelValue = "application"
	// LabelFence is on a lock while it fences.
	LabelFence      = "cozy-etcd.io/fence"
	LabelFenceValue = "on"

	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "etcd-controller"

	// AnnotationApplication is the name of the application and of its EtcdCluster.
	AnnotationApplication = "cozy-etcd.io/application"
	// AnnotationHighWater is the highest revision that a client may have seen, as far as restores know.
	AnnotationHighWater = "cozy-etcd.io/high-water-revision"
	// AnnotationFenceJob is the RestoreJob that fences.
	AnnotationFenceJob = "cozy-etcd.io/fence-restorejob"
	// AnnotationFenceSource is the one source that an EtcdCluster of that name may be created from, as s3://bucket/key.
	AnnotationFenceSource = "cozy-etcd.io/fence-source"
	// AnnotationFenceRelease is the HelmRelease that would bring up an empty cluster, as name/UID; absent where there is none.
	AnnotationFenceRelease = "cozy-etcd.io/fence-helmrelease"
)

// highestRevision bounds what is believed of AnnotationHighWater: a tenant may be able to write it, and past it no revision can be bumped any more.
const highestRevision = 1 << 61

// Lock is the lock of one application, as it was read.
type Lock struct {
	Namespace, Application string
	// Holder is nil while nobody holds it. Its creation time is not known.
	Holder *Claim
	// Fence is nil while nothing is fenced.
	Fence *Fence
	// HighWater is the highest revision known to restores; 0 where none is.
	HighWater int64

	lease *coordinationv1.Lease // nil where there is none
}

// Fence says which EtcdCluster may be created while it stands.
type Fence struct {
	Job     string // name of the RestoreJob
	Source  string // s3://bucket/key
	Release string // name/UID of the HelmRelease; empty where there is none
	Since   time.Time
}

// Name of the Lease of an application.
func Name(application string) string { return application + "-lock.cozy-etcd.io" }

// Key names the Lease in messages.
func (l *Lock) Key() string { return l.Namespace + "/" + Name(l.Application) }

// Take makes a claim the holder. The caller saves.
func (l *Lock) Take(c Claim) { l.Holder = &c }

// Release leaves nobody as the holder. The caller saves.
func (l *Lock) Release() { l.Holder = nil }

// Raise remembers a revision, if it is the highest so far. The caller saves.
func (l *Lock) Raise(revision int64) {
	if revision <= highestRevision {
		l.HighWater = max(l.HighWater, revision)
	}
}

func decode(namespace, application string, lease *coordinationv1.Lease) *Lock {
	l := &Lock{Namespace: namespace, Application: application, lease: lease}
	if lease == nil {
		return l
	}
	l.Holder = HolderOf(lease)
	a := lease.Annotations
	if revision, err := strconv.ParseInt(a[AnnotationHighWater], 10, 64); err == nil && revision > 0 {
		l.Raise(revision)
	}
	if lease.Labels[LabelFence] == LabelFenceValue {
		l.Fence = &Fence{Job: a[AnnotationFenceJob], Source: a[AnnotationFenceSource], Release: a[AnnotationFenceRelease]}
		if lease.Spec.RenewTime != nil {
			l.Fence.Since = lease.Spec.RenewTime.Time
		}
	}
	return l
}

// HolderOf reads who holds a lock; nil: nobody.
func HolderOf(lease *coordinationv1.Lease) *Claim {
	id := lease.Spec.HolderIdentity
	if id == nil || *id == "" {
		return nil
	}
	c := parseIdentity(*id)
	return &c
}

// encode gives the Lease that says what the lock says, based on the one that was read. What others wrote on it stays.
func (l *Lock) encode(now time.Time) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: Name(l.Application)}}
	if l.lease != nil {
		lease = l.lease.DeepCopy()
	}
	before := decode(l.Namespace, l.Application, l.lease)
	set(&lease.Labels, map[string]string{Label: LabelValue, labelManagedBy: managedBy, LabelFence: ""})
	set(&lease.Annotations, map[string]string{
		AnnotationApplication: l.Application, AnnotationHighWater: "", AnnotationFenceJob: "", AnnotationFenceSource: "", AnnotationFenceRelease: "",
	})
	if l.HighWater > 0 {
		lease.Annotations[AnnotationHighWater] = strconv.FormatInt(l.HighWater, 10)
	}
	if f := l.Fence; f != nil {
		lease.Labels[LabelFence] = LabelFenceValue
		set(&lease.Annotations, map[string]string{AnnotationFenceJob: f.Job, AnnotationFenceSource: f.Source, AnnotationFenceRelease: f.Release})
		if before.Fence == nil || *before.Fence != *f {
			renewed := metav1.NewMicroTime(now)
			lease.Spec.RenewTime = &renewed
		}
	}
	l.encodeHolder(lease, before.Holder, now)
	return lease
}

func (l *Lock) encodeHolder(lease *coordinationv1.Lease, before *Claim, now time.Time) {
	if l.Holder == nil {
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = nil, nil
		return
	}
	if before != nil && before.UID == l.Holder.UID {
		return
	}
	identity, acquired, transitions := l.Holder.identity(), metav1.NewMicroTime(now), int32(1)
	if lease.Spec.LeaseTransitions != nil {
		transitions += *lease.Spec.LeaseTransitions
	}
	lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.LeaseTransitions = &identity, &acquired, &transitions
}

// set writes entries, and removes those that are empty.
func set(to *map[string]string, entries map[string]string) {
	if *to == nil {
		*to = map[string]string{}
	}
	maps.Copy(*to, entries)
	maps.DeleteFunc(*to, func(k, v string) bool {
		_, ours := entries[k]
		return ours && v == ""
	})
}

// ReleaseRef is how a Fence names a HelmRelease.
func ReleaseRef(name string, uid types.UID) string { return name + "/" + string(uid) }

func parseRelease(ref string) (name string, uid types.UID, ok bool) {
	name, id, ok := strings.Cut(ref, "/")
	return name, types.UID(id), ok && name != ""
}
