package record

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
)

// sweepInterval is long: a record without a job hurts nobody, it only has to be noticed.
const sweepInterval = time.Hour

// Sweeper reports records whose RestoreJob is gone. It removes none: such a record may be the last place of a cluster's spec.
type Sweeper struct {
	Store *Store
	Jobs  client.Reader // uncached
}

// Start implements manager.Runnable.
func (s *Sweeper) Start(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil {
			log.FromContext(ctx).Error(err, "look for records without a RestoreJob")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep looks once.
func (s *Sweeper) Sweep(ctx context.Context) error {
	records, err := s.Store.List(ctx, client.MatchingLabels{LabelKind: KindRestore})
	if err != nil {
		return err
	}
	orphans := 0
	for _, r := range records {
		job := &backupsv1alpha1.RestoreJob{}
		err := s.Jobs.Get(ctx, types.NamespacedName{Namespace: r.Job.Namespace, Name: r.Job.Name}, job)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil && job.UID == r.Job.UID {
			continue
		}
		orphans++
		log.FromContext(ctx).Info("a restore's record has no RestoreJob", "record", s.Store.Namespace+"/"+Name(r.Job.UID),
			"restorejob", r.Job.Namespace+"/"+r.Job.Name, "kept", r.Outcome != nil && r.Outcome.Keep, "remedy",
			"restore the application again with a new RestoreJob, or delete the ConfigMap if the cluster is there")
	}
	metrics.OrphanedRecords.Set(float64(orphans))
	return nil
}
