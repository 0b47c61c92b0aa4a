package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// start brings up an environment with an audit log, the shipped controller and one tenant. Without `make bench` nothing of it runs.
func start(b *testing.B) *harness.Tenant {
	b.Helper()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx := context.Background()
	e, err := env.Start(ctx, env.Options{Name: "bench", Audit: true})
	require.NoError(b, err)
	b.Cleanup(e.Stop)
	p, err := harness.Prepare(ctx, e)
	require.NoError(b, err)
	require.NoError(b, p.InstallBackupClass(ctx))
	c, err := p.StartController(ctx, "--leader-elect=true")
	require.NoError(b, err)
	b.Cleanup(func() { c.Stop(10 * time.Second) })
	t, err := p.InstallTenant(ctx, "bench", time.Hour, harness.Quick(1))
	require.NoError(b, err)
	_, err = t.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(b, err)
	return t
}

// number reads a size from the environment.
func number(b *testing.B, name string, otherwise int) int {
	b.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(b, err, name)
	return n
}

// BenchmarkBackupJob measures the time from the arrival of a snapshot's Complete to the arrival of its job's Succeeded, both seen by watches of this
// process, the controller's API calls per job, and its calls while nothing happens.
func BenchmarkBackupJob(b *testing.B) {
	jobs := number(b, "BENCH_JOBS", 200)
	t := start(b)
	ctx := b.Context()
	arrivals, err := watchArrivals(ctx, t)
	require.NoError(b, err)
	_, offset, err := readCalls(t.AuditLog, 0)
	require.NoError(b, err)
	for i := range jobs {
		name := fmt.Sprintf("job-%04d", i)
		_, err := t.Backup(ctx, name)
		require.NoError(b, err)
		_, err = t.AwaitBackup(ctx, name, time.Minute)
		require.NoError(b, err)
	}
	during, offset, err := readCalls(t.AuditLog, offset)
	require.NoError(b, err)
	overheads := arrivals.overheads(jobs)
	require.Len(b, overheads, jobs)
	slices.Sort(overheads)
	b.ReportMetric(milliseconds(overheads[len(overheads)/2]), "p50-ms")
	b.ReportMetric(milliseconds(overheads[len(overheads)*99/100]), "p99-ms")
	b.ReportMetric(float64(during.total())/float64(jobs), "calls/job")
	b.Logf("%d jobs, calls: %s; leases %d, watches %d", jobs, during, during.leases, during.watches)

	idle := time.Duration(number(b, "BENCH_IDLE_SECONDS", 60)) * time.Second
	time.Sleep(idle)
	quiet, _, err := readCalls(t.AuditLog, offset)
	require.NoError(b, err)
	b.ReportMetric(float64(quiet.total()), "idle-calls")
	b.Logf("%s idle with %d finished jobs: %d calls (%s), %d Lease calls, %d watches opened", idle, jobs, quiet.total(), quiet, quiet.leases, quiet.watches)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkRestore compares a RestoreJob, from the deletion of the cluster to the job's end, with the same deletion and re-creation by hand: until then the
// cluster serves. BENCH_RESTORE_MIB lists what the database is filled with.
func BenchmarkRestore(b *testing.B) {
	sizes := os.Getenv("BENCH_RESTORE_MIB")
	if sizes == "" {
		sizes = "0,100"
	}
	for _, size := range strings.Split(sizes, ",") {
		b.Run(size+"MiB", func(b *testing.B) {
			mib, err := strconv.Atoi(size)
			require.NoError(b, err)
			measureRestores(b, mib)
		})
	}
}

func measureRestores(b *testing.B, mib int) {
	b.Helper()
	t := start(b)
	ctx := b.Context()
	fill(b, t, mib)
	_, err := t.Backup(ctx, "b")
	require.NoError(b, err)
	_, err = t.AwaitBackup(ctx, "b", time.Minute)
	require.NoError(b, err)
	backup := &backupsv1alpha1.Backup{}
	require.NoError(b, t.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: "b"}, backup))
	source, err := backupstrategy.RestoreSource(backup)
	require.NoError(b, err)
	var whole, away, byHand []time.Duration
	for i := range number(b, "BENCH_RESTORES", 5) {
		gone := awaitDeletion(b, t)
		began := time.Now()
		name := fmt.Sprintf("r-%d", i)
		_, err := t.Restore(ctx, name, "b", nil)
		require.NoError(b, err)
		_, err = t.AwaitRestore(ctx, name, 5*time.Minute)
		require.NoError(b, err)
		whole, away = append(whole, time.Since(began)), append(away, time.Since(<-gone))
		byHand = append(byHand, recreate(b, t, source.Key))
	}
	total, down, operator := median(whole), median(away), median(byHand)
	b.ReportMetric(total.Seconds(), "job-s")
	b.ReportMetric(down.Seconds(), "from-deletion-s")
	b.ReportMetric(operator.Seconds(), "operator-s")
	b.ReportMetric((down - operator).Seconds(), "overhead-s")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// fill writes values that do not compress.
func fill(b *testing.B, t *harness.Tenant, mib int) {
	b.Helper()
	c, err := t.DataStoreClient(b.Context())
	require.NoError(b, err)
	defer func() { _ = c.Close() }()
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 256<<10)
	for i := range mib * 4 {
		_, _ = random.Read(value)
		_, err := c.Put(b.Context(), fmt.Sprintf("/registry/%05d", i), string(value))
		require.NoError(b, err)
	}
}

// awaitDeletion gives the moment at which a watch sees that the cluster is deleted.
func awaitDeletion(b *testing.B, t *harness.Tenant) <-chan time.Time {
	b.Helper()
	w, err := t.Client.Watch(b.Context(), &etcdv1alpha2.EtcdClusterList{}, client.InNamespace(t.Namespace))
	require.NoError(b, err)
	gone := make(chan time.Time, 1)
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			if o, ok := e.Object.(client.Object); ok && (e.Type == watch.Deleted || o.GetDeletionTimestamp() != nil) {
				gone <- time.Now()
				return
			}
		}
	}()
	return gone
}

// recreate deletes the cluster and makes it again from an object in its own destination, and waits until it is whole.
func recreate(b *testing.B, t *harness.Tenant, key string) time.Duration {
	b.Helper()
	ctx := b.Context()
	old, err := t.Cluster(ctx)
	require.NoError(b, err)
	require.NotNil(b, old.Spec.Bootstrap)
	began := time.Now()
	require.NoError(b, t.Client.Delete(ctx, old))
	require.Eventually(b, func() bool {
		var members etcdv1alpha2.EtcdMemberList
		_, err := t.Cluster(ctx)
		return client.IgnoreNotFound(err) == nil && err != nil && t.Client.List(ctx, &members, client.InNamespace(t.Namespace)) == nil && len(members.Items) == 0
	}, time.Minute, 20*time.Millisecond)
	again := &etcdv1alpha2.EtcdCluster{Spec: *old.Spec.DeepCopy()}
	again.Spec.Bootstrap.Restore.Source.S3.Key = key // the prepared copy is gone
	again.Namespace, again.Name, again.Labels, again.Annotations = old.Namespace, old.Name, old.Labels, old.Annotations
	require.Eventually(b, func() bool { return t.Client.Create(ctx, again) == nil }, time.Minute, 20*time.Millisecond)
	_, err = t.AwaitWhole(ctx, 1, 2*time.Minute)
	require.NoError(b, err)
	return time.Since(began)
}

// arrivals are the moments at which this process's watches saw the ends of snapshots and of jobs.
type arrivals struct {
	complete, succeeded chan arrival
}

type arrival struct {
	job string
	at  time.Time
}

func watchArrivals(ctx context.Context, t *harness.Tenant) (*arrivals, error) {
	a := &arrivals{complete: make(chan arrival, 4096), succeeded: make(chan arrival, 4096)}
	snapshots, err := t.Client.Watch(ctx, &etcdv1alpha2.EtcdSnapshotList{}, client.InNamespace(t.Namespace))
	if err != nil {
		return nil, err
	}
	jobs, err := t.Client.Watch(ctx, &backupsv1alpha1.BackupJobList{}, client.InNamespace(t.Namespace))
	if err != nil {
		snapshots.Stop()
		return nil, err
	}
	go func() {
		for e := range snapshots.ResultChan() {
			if s, ok := e.Object.(*etcdv1alpha2.EtcdSnapshot); ok && s.Status.Phase == etcdv1alpha2.SnapshotComplete && len(s.OwnerReferences) == 1 {
				a.complete <- arrival{s.OwnerReferences[0].Name, time.Now()}
			}
		}
	}()
	go func() {
		for e := range jobs.ResultChan() {
			if j, ok := e.Object.(*backupsv1alpha1.BackupJob); ok && j.Status.Phase == backupsv1alpha1.BackupJobSucceeded {
				a.succeeded <- arrival{j.Name, time.Now()}
			}
		}
	}()
	return a, nil
}

// overheads waits for the ends of n jobs and returns the first arrival of each job's Succeeded after that of its snapshot's Complete.
func (a *arrivals) overheads(n int) []time.Duration {
	complete, done := map[string]time.Time{}, map[string]time.Time{}
	for len(complete) < n || len(done) < n {
		select {
		case x := <-a.complete:
			if _, seen := complete[x.job]; !seen {
				complete[x.job] = x.at
			}
		case x := <-a.succeeded:
			if _, seen := done[x.job]; !seen {
				done[x.job] = x.at
			}
		case <-time.After(10 * time.Second):
			return nil
		}
	}
	var all []time.Duration
	for job, at := range done {
		all = append(all, at.Sub(complete[job]))
	}
	return all
}
