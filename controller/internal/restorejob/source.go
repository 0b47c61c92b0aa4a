package restorejob

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// StrategySources derives the object from the strategy and the BackupClasses, as an administrator wrote them.
type StrategySources struct {
	Client client.Client // cached: strategies and classes are the administrator's and change rarely
	Reader client.Reader // uncached
}

var _ Sources = StrategySources{}

// Source implements Sources.
func (s StrategySources) Source(ctx context.Context, backup *backupsv1alpha1.Backup) (record.Source, error) {
	if _, err := backupstrategy.RestoreSource(backup); err != nil {
		return record.Source{}, err
	}
	strategy := &strategyv1alpha1.Etcd{}
	err := s.Client.Get(ctx, types.NamespacedName{Name: backup.Spec.StrategyRef.Name}, strategy)
	if apierrors.IsNotFound(err) {
		return record.Source{}, fault.Terminalf(backupsv1alpha1.ReasonStrategyNotFound,
			"Backup %q was made by strategy %q, which is gone: its coordinates cannot be checked; create the strategy again", backup.Name, backup.Spec.StrategyRef.Name)
	}
	if err != nil {
		return record.Source{}, fmt.Errorf("read strategy %q: %w", backup.Spec.StrategyRef.Name, err)
	}
	classes := &backupsv1alpha1.BackupClassList{}
	if err := s.Client.List(ctx, classes); err != nil {
		return record.Source{}, fmt.Errorf("list BackupClasses: %w", err)
	}
	application, err := s.application(ctx, backup)
	if err != nil {
		return record.Source{}, err
	}
	object, err := backupstrategy.TrustedSource(backup, backupstrategy.Trust{Strategy: strategy, Classes: classes.Items, Application: application})
	if err != nil {
		return record.Source{}, err
	}
	return record.Source{
		Endpoint: object.Endpoint, Bucket: object.Bucket, Key: object.Key, Region: object.Region, ForcePathStyle: object.ForcePathStyle,
		CredentialsSecretName: object.CredentialsSecretName, SizeBytes: object.SizeBytes, Checksum: object.Checksum,
	}, nil
}

// application reads the application that templates see. Where Cozystack's API does not serve it, the release stands for it with its values.
func (s StrategySources) application(ctx context.Context, backup *backupsv1alpha1.Backup) (map[string]any, error) {
	ref := backup.Spec.ApplicationRef
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: applicationGroup(ref), Version: backupsv1alpha1.DefaultApplicationVersion, Kind: ref.Kind})
	err := s.Reader.Get(ctx, types.NamespacedName{Namespace: backup.Namespace, Name: ref.Name}, u)
	switch {
	case err == nil:
		return u.Object, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		values, err := s.releaseValues(ctx, types.NamespacedName{Namespace: backup.Namespace, Name: ref.Name})
		return backupstrategy.Application(ref, backup.Namespace, values), err
	}
	return nil, fmt.Errorf("read application %q: %w", ref.Name, err)
}

func (s StrategySources) releaseValues(ctx context.Context, name types.NamespacedName) (map[string]any, error) {
	release := &fluxv2.HelmRelease{}
	err := s.Reader.Get(ctx, name, release)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read HelmRelease %s: %w", name, err)
	}
	values, err := backupstrategy.Values(release.Spec.Values)
	if err != nil {
		return nil, fmt.Errorf("HelmRelease %s: %w", name, err)
	}
	return values, nil
}
