package record

import (
	"context"
	"errors"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// +kubebuilder:rbac:groups="",resources=configmaps,namespace=system,verbs=get;list;create;update;delete

// Store reads and writes records. Every read goes to the API server, as a decision on a stale record could repeat a step.
type Store struct {
	Client    client.Client
	Reader    client.Reader // uncached
	Namespace string        // the controller's own
}

// ErrChanged says that somebody else saved the record since it was read.
var ErrChanged = errors.New("the record was changed meanwhile")

// Get returns the record of a job, or nil if there is none.
func (s *Store) Get(ctx context.Context, job types.UID) (*Record, error) {
	cm := &corev1.ConfigMap{}
	err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: Name(job)}, cm)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the restore's record: %w", err)
	}
	return decode(cm)
}

// Save creates the record, or replaces exactly the version that was read. ErrChanged, of class Conflict, means that nothing was written.
func (s *Store) Save(ctx context.Context, r *Record) error {
	r.FormatVersion = FormatVersion
	cm, err := r.encode(s.Namespace)
	if err != nil {
		return fmt.Errorf("encode the restore's record: %w", err)
	}
	if r.resourceVersion == "" {
		err = s.Client.Create(ctx, cm)
	} else {
		err = s.Client.Update(ctx, cm)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &fault.Error{Class: fault.Conflict, Err: fmt.Errorf("%w: %w", ErrChanged, err)}
	case err != nil:
		return fmt.Errorf("save the restore's record: %w", err)
	}
	r.resourceVersion = cm.ResourceVersion
	return nil
}

// Delete removes a record by its name. An absent one is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, cm)); err != nil {
		return fmt.Errorf("remove the restore's record %s: %w", name, err)
	}
	return nil
}

// Older returns the newest record of another job that was kept as the last place of an application's spec, or nil.
func (s *Store) Older(ctx context.Context, namespace, application string, job types.UID) (*Record, error) {
	records, err := s.List(ctx, client.MatchingLabels{LabelKind: KindRestore, LabelNamespace: namespace})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.Job.Namespace == namespace && r.Application == application && r.Job.UID != job && r.Outcome != nil && r.Outcome.Keep {
			return r, nil
		}
	}
	return nil, nil
}

// Outlived returns the newest record of another job that was kept for an application before this one ended, or nil. One that this one's spec came from is
// older, whatever the clocks said.
func (s *Store) Outlived(ctx context.Context, by *Record) (*Record, error) {
	records, err := s.List(ctx, client.MatchingLabels{LabelKind: KindRestore, LabelNamespace: by.Job.Namespace})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		same := r.Job.Namespace == by.Job.Namespace && r.Application == by.Application && r.Job.UID != by.Job.UID
		if !same || r.Outcome == nil || !r.Outcome.Keep {
			continue
		}
		if Name(r.Job.UID) == by.Supersedes || !r.Outcome.At.After(by.Outcome.At.Time) {
			return r, nil
		}
	}
	return nil, nil
}

// List returns the readable records, the newest first.
func (s *Store) List(ctx context.Context, labels client.MatchingLabels) ([]*Record, error) {
	list := &corev1.ConfigMapList{}
	if err := s.Reader.List(ctx, list, client.InNamespace(s.Namespace), labels); err != nil {
		return nil, fmt.Errorf("list restore records: %w", err)
	}
	records := make([]*Record, 0, len(list.Items))
	for i := range list.Items {
		if r, err := decode(&list.Items[i]); err == nil {
			records = append(records, r)
		}
	}
	sort.SliceStable(records, func(i, j int) bool { return records[j].CreatedAt.Before(&records[i].CreatedAt) })
	return records, nil
}
