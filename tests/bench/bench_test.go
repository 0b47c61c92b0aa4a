package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// BenchmarkRestore compares a RestoreJob with the same deletion and re-creation by hand.
func BenchmarkRestore(b *testing.B) {
	t := start(b)
	ctx := b.Context()
	_, err := t.Backup(ctx, "b")
	require.NoError(b, err)
	_, err = t.AwaitBackup(ctx, "b", time.Minute)
	require.NoError(b, err)
	var ours, byHand []time.Duration
	for i := range number(b, "BENCH_RESTORES", 5) {
		began := time.Now()
		name := fmt.Sprintf("r-%d", i)
		_, err := t.Restore(ctx, name, "b", nil)
		require.NoError(b, err)
		_, err = t.AwaitRestore(ctx, name, 2*time.Minute)
		require.NoError(b, err)
		ours = append(ours, time.Since(began))
		byHand = append(byHand, recreate(b, t))
	}
	slices.Sort(ours)
	slices.Sort(byHand)
	median, operator := ours[len(ours)/2], byHand[len(byHand)/2]
	b.ReportMetric(median.Seconds(), "restore-s")
	b.ReportMetric(operator.Seconds(), "operator-s")
	b.ReportMetric((median - operator).Seconds(), "overhead-s")
	b.ReportMetric(median.Seconds()/operator.Seconds(), "ratio")
}

// recreate deletes the cluster and makes it again from its own spec, which has the restore source of the RestoreJob before, and waits until it is whole.
func recreate(b *testing.B, t *harness.Tenant) time.Duration {
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
	again := &etcdv1alpha2.EtcdCluster{Spec: old.Spec}
	again.Namespace, again.Name, again.Labels, again.Annotations = old.Namespace, old.Name, old.Labels, old.Annotations
	require.Eventually(b, func() bool { return t.Client.Create(ctx, again) == nil }, time.Minute, 20*time.Millisecond)
	_, err = t.AwaitWhole(ctx, 1, time.Minute)
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
