package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

func (d *demo) restore(ctx context.Context) error {
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
	cluster, err := d.tenant.AwaitWhole(ctx, 3, time.Second)
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
