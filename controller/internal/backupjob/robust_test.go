package backupjob

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// behind serves each Get and List as it would have been answered one request earlier, and refuses the first status writes with a conflict.
type behind struct {
	mu        sync.Mutex
	last      map[string]answer
	conflicts int
	writes    int
}

type answer struct {
	raw []byte
	err error
}

func (b *behind) serve(key string, o client.Object, list client.ObjectList, read func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var target any = o
	if o == nil {
		target = list
	}
	err := read()
	fresh := answer{err: err}
	if err == nil {
		raw, marshalErr := json.Marshal(target)
		if marshalErr != nil {
			return marshalErr
		}
		fresh.raw = raw
	}
	old, known := b.last[key]
	b.last[key] = fresh
	if !known {
		return err
	}
	if old.err != nil {
		return old.err
	}
	value := reflect.ValueOf(target).Elem()
	value.Set(reflect.Zero(value.Type()))
	return json.Unmarshal(old.raw, target)
}

func (b *behind) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return b.serve(reflect.TypeOf(o).String()+key.String(), o, nil, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return b.serve(reflect.TypeOf(list).String(), nil, list, func() error { return c.List(ctx, list, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			b.mu.Lock()
			refuse := b.writes < b.conflicts
			b.writes++
			b.mu.Unlock()
			if refuse {
				return apierrors.NewConflict(schema.GroupResource{Resource: "backupjobs"}, o.GetName(), errors.New("injected"))
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}
}

// drive makes passes with whatever client, plays the operator in between, and returns when the job is over.
func (s *stage) drive(j *backupsv1alpha1.BackupJob, after func(pass int)) {
	s.Helper()
	for pass := range 80 {
		_, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
		if err != nil && !apierrors.IsConflict(err) && !errors.Is(err, errKilled) {
			require.NoError(s, err)
		}
		if after != nil {
			after(pass)
		}
		if o := s.snapshot(j); o.Name != "" && o.Status.Phase == "" {
			s.complete(o)
		}
		require.NoError(s, s.Get(s.Context(), client.ObjectKeyFromObject(j), j))
		if j.Status.Phase.Terminal() {
			return
		}
	}
	s.Fatalf("the job does not end: %+v", j.Status)
}

// C61: stale reads and conflicts neither double anything nor move startedAt.
func TestC61StaleReadsAndConflicts(t *testing.T) {
	for conflicts := range 4 {
		s := newStage(t)
		b := &behind{last: map[string]answer{}, conflicts: conflicts}
		s.r = s.reconciler(interceptor.NewClient(platform(t).Client, b.funcs()))
		j := s.job("nightly")
		var started time.Time
		created := map[string]bool{}
		s.drive(j, func(int) {
			s.now = s.now.Add(time.Second)
			live := &backupsv1alpha1.BackupJob{}
			require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(j), live))
			if live.Status.StartedAt != nil {
				if started.IsZero() {
					started = live.Status.StartedAt.Time
				}
				require.Equal(t, started, live.Status.StartedAt.Time)
			}
			for _, o := range s.snapshots() {
				created[string(o.UID)] = true
			}
		})
		s.requireSucceeded(j)
		require.Len(t, created, 1, "one snapshot")
		require.Len(t, s.backups(), 1)
	}
}

// C61: two controllers that do not know of each other.
func TestC61TwoControllers(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	reconcilers := []*Reconciler{s.reconciler(platform(t).Client), s.reconciler(platform(t).Client)}
	uids := map[string]bool{}
	for range 40 {
		var wg sync.WaitGroup
		for _, r := range reconcilers {
			wg.Go(func() { _, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)}) })
		}
		wg.Wait()
		for _, o := range s.snapshots() {
			uids[string(o.UID)] = true
		}
		if o := s.snapshot(j); o.Name != "" && o.Status.Phase == "" {
			s.complete(o)
		}
	}
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(j), j))
	s.requireSucceeded(j)
	require.Len(t, uids, 1)
	require.Len(t, s.backups(), 1)
}

var errKilled = errors.New("killed")

// mortal performs the n-th write and dies with it: no call after it succeeds, and nobody learns how the last one went.
type mortal struct {
	mu     sync.Mutex
	writes int
	dieAt  int // 0: never
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dieAt > 0 && m.writes >= m.dieAt
}

func (m *mortal) write(do func() error) error {
	if m.dead() {
		return errKilled
	}
	err := do()
	m.mu.Lock()
	m.writes++
	m.mu.Unlock()
	if m.dead() {
		return errKilled
	}
	return err
}

func (m *mortal) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if m.dead() {
				return errKilled
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.write(func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	}
}

// ending is what must be the same however often a run was interrupted.
type ending struct {
	Phase      backupsv1alpha1.BackupJobPhase
	Conditions map[string]string
	Snapshots  int
	Backups    int
	Metadata   int
	Artifact   *backupsv1alpha1.BackupArtifact
	Holder     string // of the lock
}

func (s *stage) ending(j *backupsv1alpha1.BackupJob) ending {
	s.Helper()
	e := ending{Phase: j.Status.Phase, Conditions: map[string]string{}, Snapshots: len(s.snapshots()), Backups: len(s.backups()), Holder: s.holder()}
	for _, c := range j.Status.Conditions {
		e.Conditions[c.Type] = string(c.Status) + "/" + c.Reason
	}
	b := s.backup(j.Name)
	e.Metadata = len(b.Spec.DriverMetadata)
	if b.Status.Artifact != nil {
		e.Artifact = b.Status.Artifact.DeepCopy()
		e.Artifact.URI = ""
	}
	return e
}

// C62: killed after each single write, the run ends as an undisturbed one does.
func TestC62KilledAfterEachWrite(t *testing.T) {
	s := newStage(t)
	quiet := &mortal{}
	s.r = s.reconciler(interceptor.NewClient(platform(t).Client, quiet.funcs()))
	j := s.job("nightly")
	s.drive(j, nil)
	s.rest(j)
	want, total := s.ending(j), quiet.writes
	require.Equal(t, backupsv1alpha1.BackupJobSucceeded, want.Phase)
	require.Equal(t, 6, total, "start, lock, snapshot, status, Backup, end")
	require.NotEmpty(t, s.lease().Name)

	for n := 1; n <= total; n++ {
		s := newStage(t)
		m := &mortal{dieAt: n}
		s.r = s.reconciler(interceptor.NewClient(platform(t).Client, m.funcs()))
		j := s.job("nightly")
		s.drive(j, func(int) {
			if m.dead() {
				s.r = s.reconciler(platform(t).Client)
			}
		})
		s.r = s.reconciler(platform(t).Client)
		s.rest(j)
		require.Equal(t, want, s.ending(j), "killed after write %d of %d", n, total)
	}
}

// C60: the namespace goes away in the middle of a run.
func TestC60NamespaceDeletedDuringARun(t *testing.T) {
	s := newStage(t)
	j, waiting := s.job("nightly"), s.job("waiting")
	s.rest(j)
	s.rest(waiting)
	require.NoError(t, s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: objectMeta(s.namespace)}))
	require.Eventually(t, func() bool {
		for _, name := range []string{"nightly", "waiting"} {
			_, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: name}})
			require.NoError(t, client.IgnoreNotFound(err))
		}
		return apierrors.IsNotFound(s.Get(t.Context(), client.ObjectKey{Name: s.namespace}, &corev1.Namespace{}))
	}, 60*time.Second, 100*time.Millisecond, "nothing of ours holds the namespace")
}

// C60: Backups outlive the cluster that they were taken from.
func TestC60BackupOutlivesTheCluster(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.drive(j, nil)
	require.NoError(t, s.Delete(t.Context(), s.getCluster()))
	require.NoError(t, s.Delete(t.Context(), s.strategyObject()))
	s.rest(j)
	s.requireSucceeded(j)
	_, err := backupstrategy.RestoreSource(s.backup("nightly"))
	require.NoError(t, err)
}

// The costs of a run: six writes, one of them of the lock, and three reads past the cache, TLS included.
func TestCallsOfARun(t *testing.T) {
	s := newStage(t)
	m := &mortal{}
	reads := 0
	s.r = s.reconciler(interceptor.NewClient(platform(t).Client, m.funcs()))
	s.r.APIReader = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
	})
	j := s.job("nightly")
	s.rest(j)
	o := s.snapshot(j)
	s.phase(o, etcdv1alpha2.SnapshotPending, "Pending", "")
	s.rest(j)
	s.phase(o, etcdv1alpha2.SnapshotStarted, etcdv1alpha2.ReasonJobCreated, "snapshot job created")
	s.rest(j)
	s.complete(o)
	s.rest(j)
	s.requireSucceeded(j)
	require.Equal(t, 6, m.writes)
	require.LessOrEqual(t, reads+2, 3, "two more for TLS")
	require.Len(t, s.recorder.Events, 1)
	reads = 0
	s.rest(j)
	require.Zero(t, reads, "a finished job costs nothing")
	require.Equal(t, 6, m.writes)
}
