package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

func (d *demo) restore(ctx context.Context) error {
	last, err := d.client.Get(ctx, "/registry/first/00000")
	if err != nil {
		return err
	}
	before := last.Header.Revision
	if _, err := d.tenant.Restore(ctx, "repair", "before-damage", nil); err != nil {
		return err
	}
	job, err := d.tenant.AwaitRestore(ctx, "repair", 90*time.Second)
	if err != nil {
		return err
	}
	for _, c := range job.Status.Conditions {
		d.report.note("%-14s %-5s %s", c.Type, c.Status, c.Reason)
	}
	cluster, err := d.tenant.AwaitWhole(ctx, 3, 10*time.Second)
	if err != nil {
		return err
	}
	d.newUID = cluster.UID
	if d.newUID == d.oldUID {
		return fmt.Errorf("the EtcdCluster still has its old UID %s: nothing was restored", d.oldUID)
	}
	d.report.proof("a new EtcdCluster, 3 of 3 members ready, cluster ID %s", cluster.Status.ClusterID)
	if err := d.sameKeys(ctx); err != nil {
		return err
	}
	d.report.proof("exactly the %d keys of the backup", len(d.backedUp))
	return d.noRewind(ctx, before)
}

// noRewind proves that no member is behind what clients have seen before the restore: a revision that comes again would make API servers serve stale state.
func (d *demo) noRewind(ctx context.Context, before int64) error {
	revisions, err := d.tenant.Revisions(ctx)
	if err != nil {
		return err
	}
	for member, revision := range revisions {
		if revision < before {
			return fmt.Errorf("member %s is at revision %d, but clients have seen %d before the restore", member, revision, before)
		}
	}
	d.report.proof("no rewind: revision %d before, now %v", before, revisions)
	return d.noCopies(ctx)
}

// noCopies waits for the prepared copies to go: that is the last thing a restore does, after it has succeeded.
func (d *demo) noCopies(ctx context.Context) error {
	left := ""
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		stored, err := d.env.S3.List(ctx, "")
		if err != nil {
			return false, err
		}
		left = ""
		for _, key := range stored {
			if _, prepared := artifact.PreparedFor(key); prepared {
				left = key
			}
		}
		return left == "", nil
	})
	if err != nil {
		return fmt.Errorf("the prepared copy %s is still in the bucket: %w", left, err)
	}
	d.report.proof("the prepared copies are gone from the bucket, the Backup's object is there")
	return nil
}

// sameKeys proves that the key space equals the one that was backed up.
func (d *demo) sameKeys(ctx context.Context) error {
	now, err := harness.ReadKeys(ctx, d.client)
	if err != nil {
		return err
	}
	if diff := d.backedUp.Diff(now); diff != "" {
		return fmt.Errorf("the keys differ from the backup: %s", diff)
	}
	return nil
}
