package lock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=backups.cozystack.io,resources=backupjobs;restorejobs,verbs=get;list;watch

// DefaultQueueLimit is how long a job waits for the lock before it fails.
const DefaultQueueLimit = 24 * time.Hour

// Store reads and writes locks.
type Store struct {
	Client client.Client // writes
	// Leases reads the Leases. It may be a cache: a write on top of an older version fails.
	Leases client.Reader
	// Live is uncached: it tells whether a holder has ended.
	Live client.Reader
	// Cached saves that question where it shows that a holder has ended: nothing goes on after that. Nil asks always.
	Cached client.Reader
	Now    func() time.Time
}

// Get reads the lock of an application. One that nobody ever took is free.
func (s *Store) Get(ctx context.Context, namespace, application string) (*Lock, error) {
	lease := &coordinationv1.Lease{}
	err := s.Leases.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name(application)}, lease)
	if apierrors.IsNotFound(err) {
		return decode(namespace, application, nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the lock of %s/%s: %w", namespace, application, err)
	}
	return decode(namespace, application, lease), nil
}

// Save writes the lock, or fails with a fault of class Conflict where it is no longer as it was read.
func (s *Store) Save(ctx context.Context, l *Lock) error {
	lease := l.encode(s.Now())
	var err error
	if l.lease == nil {
		err = s.Client.Create(ctx, lease)
	} else {
		err = s.Client.Update(ctx, lease)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), l.lease != nil && apierrors.IsNotFound(err):
		return &fault.Error{Class: fault.Conflict, Reason: backupsv1alpha1.ReasonWaitingForLock, Err: fmt.Errorf("the lock %s was changed meanwhile: %w", l.Key(), err)}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fault.Terminalf(backupsv1alpha1.ReasonDeleted, "the namespace is being deleted: %w", err)
	case err != nil:
		return fmt.Errorf("save the lock %s: %w", l.Key(), err)
	}
	l.lease = lease
	return nil
}

// Judge decides on a claim to a lock that was read. Waiters are those who want it too; they are asked for only where nobody holds it.
func (s *Store) Judge(ctx context.Context, l *Lock, me Claim, waiters func() ([]Claim, error)) (Verdict, error) {
	ended := false
	if l.Holder != nil && l.Holder.UID != me.UID {
		var err error
		if ended, err = s.Ended(ctx, l.Namespace, *l.Holder); err != nil {
			return Verdict{}, err
		}
	}
	if l.Holder != nil && !ended {
		return Judge(me, l.Holder, false, nil), nil
	}
	all, err := waiters()
	if err != nil {
		return Verdict{}, err
	}
	return Judge(me, l.Holder, ended, all), nil
}

// Ended tells whether a holder is gone or has ended. Of a kind that is not known here it cannot be told: such a holder stays.
func (s *Store) Ended(ctx context.Context, namespace string, holder Claim) (bool, error) {
	var object client.Object
	var over func() bool
	switch holder.Kind {
	case "RestoreJob":
		job := &backupsv1alpha1.RestoreJob{}
		// Until its finalizer is gone it still undoes things, the fence among them.
		object, over = job, func() bool {
			return job.Status.Phase.Terminal() && !controllerutil.ContainsFinalizer(job, backupsv1alpha1.RestoreFinalizer)
		}
	case "BackupJob":
		job := &backupsv1alpha1.BackupJob{}
		object, over = job, func() bool { return job.Status.Phase.Terminal() }
	default:
		return false, nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: holder.Name}
	if s.Cached != nil && s.Cached.Get(ctx, key, object) == nil && object.GetUID() == holder.UID && over() {
		return true, nil
	}
	err := s.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether %s, which holds a lock, has ended: %w", holder, err)
	}
	return object.GetUID() != holder.UID || over(), nil
}
