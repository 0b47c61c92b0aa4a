package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// scenario is one tenant's life in its own namespace: filled, backed up, damaged, restored. The controller is disturbed during one of the two jobs.
type scenario struct {
	t      *testing.T
	api    *API
	tenant *harness.Tenant
	config string // kubeconfig through the proxy
	now    *harness.Controller
}

// outcome is everything that must not depend on the disturbance.
type outcome struct {
	objects []string
	keys    harness.Keys
	stored  []string
	writes  []string // of the job under test
}

// disturbance is what happens to the controller while the job under test runs. Its zero value lets it run undisturbed.
type disturbance struct {
	mode Mode
	at   Point
	n    int // of the write in the undisturbed run
	// lag of the caches, and conflicts at every other write of a status, for the whole of the job.
	lag       time.Duration
	conflicts bool
}

func (d disturbance) name() string {
	switch {
	case d.lag > 0:
		return "lag"
	case d.conflicts:
		return "conflicts"
	}
	return fmt.Sprintf("%s-%d", d.mode, d.n)
}

// drama is a job under test: when it begins and how it ends.
type drama struct {
	name string
	// prepare comes before the job, if there is something to prepare.
	prepare func(ctx context.Context, s *scenario)
	create  func(ctx context.Context, s *scenario) error
	await   func(ctx context.Context, s *scenario) error
}

func (s *scenario) start(ctx context.Context) {
	c, err := s.tenant.StartController(ctx, "--kubeconfig="+s.config)
	require.NoError(s.t, err)
	s.now = c
}

// plays counts, so that each has a namespace of its own.
var plays int

// play runs a drama once.
func play(t *testing.T, p *harness.Platform, d drama, how disturbance) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	plays++
	journal.Arm(Point{}, "", nil)
	api, err := NewAPI(p.Config, p.Token, journal)
	require.NoError(t, err)
	defer api.Close()
	config, err := p.KubeconfigVia(api.URL)
	require.NoError(t, err)
	tenant, err := p.InstallTenant(ctx, fmt.Sprintf("crash-%s-%s-%03d", d.name, how.name(), plays), time.Hour, harness.Quick(1))
	require.NoError(t, err)
	defer func() { require.NoError(t, tenant.Uninstall(context.WithoutCancel(ctx))) }()
	s := &scenario{t: t, api: api, tenant: tenant, config: config}
	s.start(ctx)
	defer func() { s.now.Kill() }()
	return s.run(ctx, d, how)
}

func (s *scenario) run(ctx context.Context, d drama, how disturbance) outcome {
	_, err := s.tenant.AwaitWhole(ctx, 1, time.Minute)
	require.NoError(s.t, err)
	client, err := s.tenant.DataStoreClient(ctx)
	require.NoError(s.t, err)
	defer func() { _ = client.Close() }()
	require.NoError(s.t, harness.Write(ctx, client, "/registry", "good", 10))
	if d.name != "backup" {
		s.backUp(ctx)
		require.NoError(s.t, harness.Write(ctx, client, "/registry", "bad", 5))
		require.NoError(s.t, harness.Write(ctx, client, "/later", "bad", 5))
	}
	if d.prepare != nil {
		d.prepare(ctx, s)
	}
	err = s.disturb(ctx, d, how)
	require.NoError(s.t, err, "writes: %v\nthe controller's log ends with:\n%s", journal.Writes(), s.now.LogTail(8192))
	if how.conflicts {
		require.Greater(s.t, s.api.Conflicts(), 3)
	}
	var o outcome
	o.objects = s.settled(ctx)
	o.writes = journal.Writes()
	o.keys, err = harness.ReadKeys(ctx, client)
	require.NoError(s.t, err)
	o.stored, err = s.tenant.S3.List(ctx, "example/"+s.tenant.Namespace+"/")
	require.NoError(s.t, err)
	for i := range o.stored {
		o.stored[i] = quiet(strings.ReplaceAll(o.stored[i], s.tenant.Namespace, "<namespace>"))
	}
	return o
}

func (s *scenario) backUp(ctx context.Context) {
	_, err := s.tenant.Backup(ctx, "b")
	require.NoError(s.t, err)
	_, err = s.tenant.AwaitBackup(ctx, "b", time.Minute)
	require.NoError(s.t, err)
}

// disturb creates the job under test and waits for its end. Where the controller dies, another one takes over.
func (s *scenario) disturb(ctx context.Context, d drama, how disturbance) error {
	victim := s.now
	killed, ended := make(chan struct{}), make(chan error, 1)
	s.api.Lag(how.lag)
	if how.conflicts {
		s.api.Conflict()
	}
	if how.lag > 0 { // for watches that are opened from now on
		s.now.Kill()
		s.start(ctx)
	}
	journal.Arm(how.at, how.mode, func() { victim.Kill(); close(killed) })
	require.NoError(s.t, d.create(ctx, s))
	go func() { ended <- d.await(ctx, s) }()
	select {
	case <-killed:
		s.start(ctx)
		return <-ended
	case err := <-ended:
		if how.mode == Kill && err == nil {
			s.replace(ctx, killed)
		}
		return err
	}
}

// replace starts another controller where one is killed after the job's end, while it cleans up.
func (s *scenario) replace(ctx context.Context, killed <-chan struct{}) {
	for !s.letGo(ctx) {
		select {
		case <-killed:
			s.start(ctx)
			return
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// letGo tells that no controller has anything left to do for the restore.
func (s *scenario) letGo(ctx context.Context) bool {
	job := &backupsv1alpha1.RestoreJob{}
	err := s.tenant.Client.Get(ctx, client.ObjectKey{Namespace: s.tenant.Namespace, Name: "r"}, job)
	return client.IgnoreNotFound(err) == nil && len(job.Finalizers) == 0
}

// settled waits until the controller lets the job go and nothing changes any more, and dumps it.
func (s *scenario) settled(ctx context.Context) []string {
	var before, now []string
	require.Eventually(s.t, func() bool { return s.letGo(ctx) }, time.Minute, 100*time.Millisecond, "the job is not let go")
	require.Eventually(s.t, func() bool {
		before = now
		var err error
		now, err = Dump(ctx, s.tenant)
		return err == nil && before != nil && Difference(before, now) == ""
	}, 30*time.Second, time.Second, "the objects do not settle")
	return now
}

var backup = drama{
	name:   "backup",
	create: func(ctx context.Context, s *scenario) error { _, err := s.tenant.Backup(ctx, "b"); return err },
	await: func(ctx context.Context, s *scenario) error {
		_, err := s.tenant.AwaitBackup(ctx, "b", time.Minute)
		return err
	},
}

func createRestore(ctx context.Context, s *scenario) error {
	_, err := s.tenant.Restore(ctx, "r", "b", nil)
	return err
}

var restore = drama{
	name:   "restore",
	create: createRestore,
	await: func(ctx context.Context, s *scenario) error {
		_, err := s.tenant.AwaitRestore(ctx, "r", 2*time.Minute)
		return err
	},
}

// abort deletes the RestoreJob while nothing else is deleted yet: the restore stops and leaves the cluster as it was.
var abort = drama{name: "abort", prepare: deleteAfter("PATCH helmreleases"), create: createRestore, await: awaitGone}

// deleted deletes the RestoreJob after the cluster's deletion: the restore runs to its end, and then lets the job go.
var deleted = drama{name: "deleted", prepare: deleteAfter("DELETE etcdclusters"), create: createRestore, await: awaitGone}

// rollback is a restore whose cluster never comes up: the operator gives up on its seed, and the state before the restore comes back.
var rollback = drama{
	name: "rollback",
	prepare: func(_ context.Context, s *scenario) {
		platform.Operator.Faults.Update(func(p *etcdoperator.Plan) { p.FailSeed, p.GiveUp = s.startsFromBackup, s.startsFromBackup })
		s.t.Cleanup(platform.Operator.Faults.Clear)
	},
	create: createRestore,
	await: func(ctx context.Context, s *scenario) error {
		job, err := s.tenant.AwaitRestore(ctx, "r", 3*time.Minute)
		if c := meta.FindStatusCondition(job.Status.Conditions, backupsv1alpha1.ConditionReady); c == nil || c.Reason != backupsv1alpha1.ReasonRolledBack {
			return fmt.Errorf("not rolled back: %w", err)
		}
		return nil
	},
}

// startsFromBackup tells that a cluster is made from what the job restores, and not from the safety copy, whose key begins with the job's name.
func (s *scenario) startsFromBackup(namespace, name string) bool {
	cluster := &etcdv1alpha2.EtcdCluster{}
	if s.tenant.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, cluster) != nil || namespace != s.tenant.Namespace {
		return false
	}
	b := cluster.Spec.Bootstrap
	return b != nil && b.Restore != nil && !strings.Contains(b.Restore.Source.S3.Key, "/r-")
}

func deleteAfter(write string) func(context.Context, *scenario) {
	return func(ctx context.Context, s *scenario) {
		journal.On(write, func() {
			job := &backupsv1alpha1.RestoreJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant.Namespace, Name: "r"}}
			if err := s.tenant.Client.Delete(ctx, job); err != nil {
				s.t.Errorf("delete the RestoreJob: %v", err)
			}
		})
	}
}

func awaitGone(ctx context.Context, s *scenario) error {
	job := &backupsv1alpha1.RestoreJob{}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := s.tenant.Client.Get(ctx, client.ObjectKey{Namespace: s.tenant.Namespace, Name: "r"}, job)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
