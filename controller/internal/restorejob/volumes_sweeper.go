package restorejob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// sweepInterval is how late a volume may be given back at most; what is kept is kept for hours or days.
const sweepInterval = 5 * time.Minute

// VolumeSweeper gives volumes back whose time has passed. All that it needs stands on the volume, so it outlives job and record.
type VolumeSweeper struct {
	Client client.Client
	Reader client.Reader // uncached
	Now    func() time.Time
}

// Start implements manager.Runnable.
func (s *VolumeSweeper) Start(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil {
			log.FromContext(ctx).Error(err, "give back volumes that were kept for a while")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep looks once. One volume that cannot be changed does not keep the others.
func (s *VolumeSweeper) Sweep(ctx context.Context) error {
	kept := &corev1.PersistentVolumeList{}
	if err := s.Reader.List(ctx, kept, client.HasLabels{backupsv1alpha1.LabelKeptBy}); err != nil {
		return fmt.Errorf("list kept PersistentVolumes: %w", err)
	}
	var failed error
	for i := range kept.Items {
		pv := &kept.Items[i]
		until, err := time.Parse(time.RFC3339, pv.Annotations[backupsv1alpha1.AnnotationKeptUntil])
		if err != nil {
			log.FromContext(ctx).Info("a kept volume does not say until when: remove its label, or set its annotation", "volume", pv.Name,
				"label", backupsv1alpha1.LabelKeptBy, "annotation", backupsv1alpha1.AnnotationKeptUntil)
			continue
		}
		if s.Now().Before(until) {
			continue
		}
		if err := giveBack(ctx, s.Client, pv); err != nil && fault.ClassOf(err) != fault.Conflict {
			failed = err
		}
	}
	return failed
}
