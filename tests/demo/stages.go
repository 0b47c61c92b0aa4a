package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	clientv3 "go.etcd.io/etcd/client/v3"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

const (
	tenantNamespace = "tenant-demo"
	fluxInterval    = 2 * time.Second
	keyCount        = 300
)

type demo struct {
	report   report
	env      *env.Env
	platform *harness.Platform
	tenant   *harness.Tenant
	client   *clientv3.Client
	backedUp harness.Keys
	oldUID   types.UID
	newUID   types.UID
	stops    []func()
}

type stage struct {
	title string
	do    func(context.Context) error
}

func (d *demo) stages() []stage {
	return []stage{
		{"local environment: API server, cert-manager, S3, doubles", d.startEnvironment},
		{"controller: the shipped binary with its chart's rights", d.startController},
		{"install: HelmRelease etcd of charts/etcd, 3 members", d.install},
		{"connect: a client made only from the live DataStore", d.connect},
		{"back up: keys written, BackupJob to S3", d.backUp},
		{"damage: keys deleted, changed and added", d.damage},
		{"restore: RestoreJob in place", d.restore},
		{"quiet: three Flux intervals change nothing", d.quiet},
		{"upgrade: replicas 3 to 1 still takes effect", d.scaleDown},
	}
}

func (d *demo) stop() {
	for i := len(d.stops) - 1; i >= 0; i-- {
		d.stops[i]()
	}
}

func (d *demo) startEnvironment(ctx context.Context) error {
	e, err := env.Start(ctx, env.Options{Name: "demo", Progress: func(part string) { d.report.note("%s is up", part) }})
	if err != nil {
		return err
	}
	d.env = e
	d.stops = append(d.stops, e.Stop)
	return nil
}

func (d *demo) startController(ctx context.Context) error {
	var err error
	if d.platform, err = harness.Prepare(ctx, d.env); err != nil {
		return err
	}
	controller, err := d.platform.StartController(ctx)
	if err != nil {
		return err
	}
	d.stops = append(d.stops, func() { controller.Stop(10 * time.Second) })
	if err := d.platform.InstallBackupClass(ctx); err != nil {
		return err
	}
	d.report.proof("ready; strategy and BackupClass of examples/ are accepted")
	return nil
}

func (d *demo) install(ctx context.Context) error {
	var err error
	if d.tenant, err = d.platform.InstallTenant(ctx, tenantNamespace, fluxInterval, map[string]any{"replicas": 3}); err != nil {
		return err
	}
	// Five RSA keys of 4096 bits take seconds as a rule, and now and then a minute.
	cluster, err := d.tenant.AwaitWhole(ctx, 3, 3*time.Minute)
	if err != nil {
		return err
	}
	d.oldUID = cluster.UID
	d.report.proof("3 of 3 members ready, etcd %s, cluster ID %s", cluster.Spec.Version, cluster.Status.ClusterID)
	return nil
}

func (d *demo) connect(ctx context.Context) error {
	c, err := d.tenant.DataStoreClient(ctx)
	if err != nil {
		return err
	}
	d.client = c
	d.stops = append(d.stops, func() { _ = c.Close() })
	if err := harness.Write(ctx, c, "/registry/first", "hello", 1); err != nil {
		return err
	}
	got, err := c.Get(ctx, "/registry/first/00000")
	if err != nil {
		return err
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "hello-00000" {
		return fmt.Errorf("the key written is not the key read: %v", got.Kvs)
	}
	d.report.proof("writes and reads with a fresh certificate signed by the DataStore's CA key")
	return d.refuseOthers(ctx)
}

// refuseOthers proves that the door is locked: etcd itself ends the handshake of a client without a certificate, and of one with a certificate of the peer CA.
func (d *demo) refuseOthers(ctx context.Context) error {
	own, endpoints, err := kamaji.TLSFromDataStore(ctx, d.env.Client, tenantNamespace, kamaji.RootUser)
	if err != nil {
		return err
	}
	bare, _, err := kamaji.TLSWithoutCertificate(ctx, d.env.Client, tenantNamespace)
	if err != nil {
		return err
	}
	peer, _, err := kamaji.TLSOfOtherCA(ctx, d.env.Client, tenantNamespace, types.NamespacedName{Namespace: tenantNamespace, Name: "etcd-peer-ca-tls"})
	if err != nil {
		return err
	}
	for _, c := range []struct {
		who    string
		config *tls.Config
		alert  string
	}{
		{"a client with a certificate of the DataStore's CA", own, ""},
		{"a client without a certificate", bare, "tls: certificate required"},
		{"a client with a certificate of the peer CA", peer, "tls: unknown certificate authority"},
	} {
		alert, err := kamaji.Refusal(ctx, c.config, endpoints, d.platform.Resolve)
		if err != nil {
			return fmt.Errorf("%s: etcd neither speaks to it nor refuses it: %w", c.who, err)
		}
		if alert != c.alert {
			return fmt.Errorf("%s: etcd ends the handshake with %q, expected %q (empty: it does not)", c.who, alert, c.alert)
		}
		if alert != "" {
			d.report.proof("%s is refused: %s", c.who, alert)
		}
	}
	return nil
}

func (d *demo) backUp(ctx context.Context) error {
	if err := harness.Write(ctx, d.client, "/registry/pods", "good", keyCount); err != nil {
		return err
	}
	var err error
	if d.backedUp, err = harness.ReadKeys(ctx, d.client); err != nil {
		return err
	}
	d.report.note("%d keys written", len(d.backedUp))
	if _, err := d.tenant.Backup(ctx, "before-damage"); err != nil {
		return err
	}
	job, err := d.tenant.AwaitBackup(ctx, "before-damage", time.Minute)
	if err != nil {
		return err
	}
	backup := &backupsv1alpha1.Backup{}
	if err := d.env.Client.Get(ctx, types.NamespacedName{Namespace: tenantNamespace, Name: job.Status.BackupRef.Name}, backup); err != nil {
		return err
	}
	artifact := backup.Status.Artifact
	if artifact == nil {
		return fmt.Errorf("the Backup %s has no artifact", backup.Name)
	}
	key, ok := d.env.S3.Key(artifact.URI)
	if !ok {
		return fmt.Errorf("the artifact %s is not in the bucket", artifact.URI)
	}
	stored, err := d.env.S3.Get(ctx, key)
	if err != nil {
		return err
	}
	if int64(len(stored)) != artifact.SizeBytes {
		return fmt.Errorf("the object has %d bytes, its record says %d", len(stored), artifact.SizeBytes)
	}
	d.report.proof("Backup %s is Ready: %s, %d bytes, %.19s…", backup.Name, artifact.URI, artifact.SizeBytes, artifact.Checksum)
	return nil
}

func (d *demo) damage(ctx context.Context) error {
	if _, err := d.client.Delete(ctx, "/registry/pods/000", clientv3.WithPrefix()); err != nil {
		return err
	}
	if err := harness.Write(ctx, d.client, "/registry/pods", "bad", 50); err != nil {
		return err
	}
	if err := harness.Write(ctx, d.client, "/registry/later", "bad", 50); err != nil {
		return err
	}
	now, err := harness.ReadKeys(ctx, d.client)
	if err != nil {
		return err
	}
	diff := d.backedUp.Diff(now)
	if diff == "" {
		return errors.New("nothing was damaged")
	}
	d.report.proof("against the backup: %s", diff)
	return nil
}

func (d *demo) quiet(ctx context.Context) error {
	before, err := d.tenant.Cluster(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(3*fluxInterval + fluxInterval/2)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	after, err := d.tenant.Cluster(ctx)
	if err != nil {
		return err
	}
	if after.UID != before.UID || after.Generation != before.Generation || after.Spec.Bootstrap == nil {
		return fmt.Errorf("the EtcdCluster changed: generation %d, was %d; bootstrap kept: %v", after.Generation, before.Generation, after.Spec.Bootstrap != nil)
	}
	release := &fluxv2.HelmRelease{}
	if err := d.env.Client.Get(ctx, types.NamespacedName{Namespace: tenantNamespace, Name: harness.ReleaseName}, release); err != nil {
		return err
	}
	if release.Spec.Suspend {
		return errors.New("the HelmRelease is still suspended")
	}
	if err := d.sameKeys(ctx); err != nil {
		return err
	}
	d.report.proof("EtcdCluster at generation %d, HelmRelease active, same keys", after.Generation)
	return nil
}

func (d *demo) scaleDown(ctx context.Context) error {
	if err := d.tenant.SetValues(ctx, map[string]any{"replicas": 1}); err != nil {
		return err
	}
	if _, err := d.tenant.AwaitWhole(ctx, 1, time.Minute); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		members, err := d.client.MemberList(ctx)
		return err == nil && len(members.Members) == 1, nil
	})
	if err != nil {
		return fmt.Errorf("etcd itself does not count one member: %w", err)
	}
	if err := d.sameKeys(ctx); err != nil {
		return err
	}
	d.report.proof("1 member by the operator and by etcd's own list, same keys")
	return nil
}
