package restorejob

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// Confirm implements Artifacts.
func (g *rig) Confirm(_ context.Context, _ string, _ record.Source, prepared record.Prepared) error {
	if err := g.artifact("confirm"); err != nil {
		return err
	}
	if _, there := g.stored.Load(prepared.Key); !there {
		return store.Failed("HEAD "+prepared.Key, store.ErrNotFound, "")
	}
	return nil
}

// What was proven and prepared may be gone minutes later, when the deletion has its turn.
func TestNothingIsDeletedWithoutTheCopiesThatWerePrepared(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		confirm      func(g *rig, look int) error // look 0 is at the place of the safety copy to come
	}{
		{"the safety copy's place cannot be looked at", backupsv1alpha1.ReasonListBucketForbidden, func(g *rig, _ int) error {
			require.Empty(g.t, g.snapshots())
			return store.Failed("HEAD s3://b/k", store.ErrForbidden, "status 403")
		}},
		{"the copy was removed", backupsv1alpha1.ReasonObjectNotFound, func(g *rig, look int) error {
			if look == 1 {
				g.stored.Clear()
			}
			return nil
		}},
		{"the safety copy was removed", backupsv1alpha1.ReasonObjectNotFound, func(g *rig, look int) error {
			if look == 2 {
				g.stored.Clear()
			}
			return nil
		}},
		{"the credentials are gone", backupsv1alpha1.ReasonCredentialsSecretInvalid, func(*rig, int) error {
			return fault.Terminalf(backupsv1alpha1.ReasonCredentialsSecretInvalid, "Secret %q is not in this namespace", "creds")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.tenant("again")
			before, looks := g.cluster(), 0
			g.artifacts = func(verb string) error {
				if verb != "confirm" {
					return nil
				}
				looks++
				return c.confirm(g, looks-1)
			}
			job := g.finish("again")
			require.Equal(t, badPhase, job.Status.Phase)
			require.Equal(t, "False/"+c.reason, condition(job, "Ready"))
			require.Contains(t, job.Status.Message, "the cluster was left as it is")
			require.Equal(t, before.GetUID(), g.cluster().GetUID())
			require.NotEqual(t, true, g.suspended())
		})
	}
}
