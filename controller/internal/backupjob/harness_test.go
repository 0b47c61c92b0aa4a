package backupjob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/lock"
)

var checksum = "sha256:" + strings.Repeat("5a", 32)

// stage is a namespace with everything that a backup needs, and a reconciler that is driven pass by pass.
type stage struct {
	*testing.T
	client.Client
	namespace string
	class     string // also the strategy's name
	now       time.Time
	recorder  *events.FakeRecorder
	r         *Reconciler
}

// newStage has a class, a strategy, credentials and a cluster with three ready voters.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, namespace: namespace(t), Client: platform(t).Client, now: time.Now().Truncate(time.Second)}
	s.class = "class-" + s.namespace
	s.r = s.reconciler(platform(t).Client)
	s.create(s.strategyObject())
	s.create(s.classObject(backupstrategy.StrategyRef(s.class)))
	s.create(s.credentials())
	s.cluster("etcd", 3)
	t.Cleanup(s.clear)
	return s
}

// clear takes the jobs and their snapshots away: the limit on running snapshots counts those of every namespace, and so would one test's those of another.
func (s *stage) clear() {
	for _, kind := range []client.Object{&backupsv1alpha1.BackupJob{}, &etcdv1alpha2.EtcdSnapshot{}} {
		require.NoError(s, s.DeleteAllOf(context.Background(), kind, client.InNamespace(s.namespace)))
	}
}

func (s *stage) reconciler(c client.Client) *Reconciler {
	s.recorder = events.NewFakeRecorder(100)
	now := func() time.Time { return s.now }
	return &Reconciler{
		Client: c, APIReader: platform(s.T).Client, Events: s.recorder, Etcd: answering{}, Now: now,
		Locks: &lock.Store{Client: c, Leases: c, Live: platform(s.T).Client, Now: now},
	}
}

// answering is an etcd that answers at once.
type answering struct{ etcd.Reader }

func (a answering) Dial(etcd.Target) (etcd.Reader, error) { return a, nil }
func (answering) Close() error                            { return nil }
func (answering) Status(context.Context) (etcd.Status, error) {
	return etcd.Status{ClusterID: 0x3fcee40164b50008, Version: "3.6.11", Revision: 42}, nil
}

// silent is an etcd that cannot be reached.
type silent struct{}

func (silent) Dial(etcd.Target) (etcd.Reader, error) { return nil, errors.New("no route") }

func (s *stage) create(o client.Object) {
	s.Helper()
	require.NoError(s, s.Create(s.Context(), o))
	if o.GetNamespace() == "" {
		s.Cleanup(func() { _ = s.Delete(context.Background(), o) })
	}
}

func (s *stage) strategyObject() *strategyv1alpha1.Etcd {
	return &strategyv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Name: s.class},
		Spec: strategyv1alpha1.EtcdSpec{Template: strategyv1alpha1.EtcdTemplate{Destination: strategyv1alpha1.EtcdDestination{S3: &strategyv1alpha1.EtcdS3{
			Endpoint: "https://s3.example/", Bucket: "{{ .Parameters.bucket }}", Key: "prod/{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}",
			Region: "us-east-1", ForcePathStyle: true, CredentialsSecretRef: strategyv1alpha1.SecretRef{Name: "creds"},
		}}}},
	}
}

func (s *stage) classObject(ref corev1.TypedLocalObjectReference) *backupsv1alpha1.BackupClass {
	return &backupsv1alpha1.BackupClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.class},
		Spec: backupsv1alpha1.BackupClassSpec{Strategies: []backupsv1alpha1.BackupClassStrategy{{
			StrategyRef: ref, Application: backupsv1alpha1.ApplicationSelector{Kind: "Etcd"}, Parameters: map[string]string{"bucket": "backups"},
		}}},
	}
}

func (s *stage) credentials() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "creds"},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"},
	}
}

func (s *stage) cluster(name string, members int) *etcdv1alpha2.EtcdCluster {
	s.Helper()
	c := &etcdv1alpha2.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       etcdv1alpha2.EtcdClusterSpec{Version: "3.6.11"},
	}
	s.create(c)
	c.Status.ClusterID = "aaaa"
	require.NoError(s, s.Status().Update(s.Context(), c))
	for i := range members {
		s.member(c, fmt.Sprintf("%s-%d", name, i), true, true)
	}
	return c
}

func (s *stage) member(c *etcdv1alpha2.EtcdCluster, name string, ready, voter bool) *etcdv1alpha2.EtcdMember {
	s.Helper()
	m := &etcdv1alpha2.EtcdMember{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, etcdv1alpha2.GroupVersion.WithKind("EtcdCluster"))},
		},
		Spec: etcdv1alpha2.EtcdMemberSpec{ClusterName: c.Name, ClusterToken: "t", InitialCluster: "x", Version: "3.6.11"},
	}
	s.create(m)
	s.setMember(m, ready, voter)
	return m
}

func (s *stage) setMember(m *etcdv1alpha2.EtcdMember, ready, voter bool) {
	s.Helper()
	m.Status.IsVoter = voter
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: etcdv1alpha2.ConditionReady, Status: status, Reason: "PodReady"})
	require.NoError(s, s.Status().Update(s.Context(), m))
}

func (s *stage) getMember(name string) *etcdv1alpha2.EtcdMember {
	s.Helper()
	m := &etcdv1alpha2.EtcdMember{}
	require.NoError(s, s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, m))
	return m
}

func (s *stage) job(name string) *backupsv1alpha1.BackupJob {
	s.Helper()
	j := &backupsv1alpha1.BackupJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: backupsv1alpha1.BackupJobSpec{
			ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "etcd"}, BackupClassName: s.class,
		},
	}
	s.create(j)
	return j
}

// pass makes one pass and reads the job again.
func (s *stage) pass(j *backupsv1alpha1.BackupJob) ctrl.Result {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
	require.NoError(s, err)
	require.NoError(s, s.Get(s.Context(), client.ObjectKeyFromObject(j), j))
	return result
}

// rest makes passes until a pass changes neither the job nor its children.
func (s *stage) rest(j *backupsv1alpha1.BackupJob) ctrl.Result {
	s.Helper()
	before := ""
	for range 20 {
		result := s.pass(j)
		after := j.ResourceVersion + s.childrenState(j)
		if after == before {
			return result
		}
		before = after
	}
	s.Fatalf("the job does not come to rest: %+v", j.Status)
	return ctrl.Result{}
}

func (s *stage) childrenState(j *backupsv1alpha1.BackupJob) string {
	state := ""
	for _, o := range []client.Object{s.snapshot(j), s.backup(j.Name)} {
		state += "/" + o.GetResourceVersion()
	}
	return state
}

// snapshot is the job's; an empty one if there is none.
func (s *stage) snapshot(j *backupsv1alpha1.BackupJob) *etcdv1alpha2.EtcdSnapshot {
	s.Helper()
	o := &etcdv1alpha2.EtcdSnapshot{}
	err := s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: backupstrategy.SnapshotName(j)}, o)
	require.NoError(s, client.IgnoreNotFound(err))
	return o
}

func (s *stage) backup(name string) *backupsv1alpha1.Backup {
	s.Helper()
	b := &backupsv1alpha1.Backup{}
	require.NoError(s, client.IgnoreNotFound(s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, b)))
	return b
}

func (s *stage) backups() []backupsv1alpha1.Backup {
	s.Helper()
	var list backupsv1alpha1.BackupList
	require.NoError(s, s.List(s.Context(), &list, client.InNamespace(s.namespace)))
	return list.Items
}

func (s *stage) snapshots() []etcdv1alpha2.EtcdSnapshot {
	s.Helper()
	var list etcdv1alpha2.EtcdSnapshotList
	require.NoError(s, s.List(s.Context(), &list, client.InNamespace(s.namespace)))
	return list.Items
}

// phase plays the operator.
func (s *stage) phase(o *etcdv1alpha2.EtcdSnapshot, phase etcdv1alpha2.EtcdSnapshotPhase, reason, message string) {
	s.Helper()
	o.Status.Phase = phase
	ready := metav1.ConditionFalse
	if phase == etcdv1alpha2.SnapshotComplete {
		ready = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
		Type: etcdv1alpha2.ConditionReady, Status: ready, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(s.now),
	})
	require.NoError(s, s.Status().Update(s.Context(), o))
}

// complete plays the operator's success, with edits of its record.
func (s *stage) complete(o *etcdv1alpha2.EtcdSnapshot, edits ...func(*etcdv1alpha2.EtcdSnapshotStatus)) {
	s.Helper()
	d, ok := backupstrategy.DestinationOf(o.Spec)
	require.True(s, ok)
	o.Status.Artifact = &etcdv1alpha2.SnapshotArtifact{URI: d.URI(o.Name), SizeBytes: 20512, Checksum: checksum}
	for _, edit := range edits {
		edit(&o.Status)
	}
	s.phase(o, etcdv1alpha2.SnapshotComplete, etcdv1alpha2.ReasonSnapshotStored, "snapshot captured and stored")
}

func (s *stage) ready(j *backupsv1alpha1.BackupJob) metav1.Condition {
	s.Helper()
	c := meta.FindStatusCondition(j.Status.Conditions, backupsv1alpha1.ConditionReady)
	require.NotNil(s, c, "%+v", j.Status)
	require.Equal(s, c.Message, j.Status.Message)
	return *c
}

func (s *stage) requireWaiting(j *backupsv1alpha1.BackupJob, reason, says string) {
	s.Helper()
	c := s.ready(j)
	require.Equal(s, reason, c.Reason, c.Message)
	require.Contains(s, c.Message, says)
	require.Equal(s, backupsv1alpha1.BackupJobRunning, j.Status.Phase)
	require.NotNil(s, j.Status.StartedAt)
	require.True(s, meta.IsStatusConditionTrue(j.Status.Conditions, backupsv1alpha1.ConditionReconciling))
}

func (s *stage) requireFailed(j *backupsv1alpha1.BackupJob, reason, says string) {
	s.Helper()
	c := s.ready(j)
	require.Equal(s, reason, c.Reason, c.Message)
	require.Contains(s, c.Message, says)
	require.Equal(s, backupsv1alpha1.BackupJobFailed, j.Status.Phase)
	require.NotNil(s, j.Status.CompletedAt)
	require.Nil(s, j.Status.BackupRef)
	require.True(s, meta.IsStatusConditionTrue(j.Status.Conditions, backupsv1alpha1.ConditionStalled))
	require.Nil(s, meta.FindStatusCondition(j.Status.Conditions, backupsv1alpha1.ConditionReconciling))
}

func (s *stage) requireSucceeded(j *backupsv1alpha1.BackupJob) {
	s.Helper()
	require.Equal(s, backupsv1alpha1.BackupJobSucceeded, j.Status.Phase, j.Status.Message)
	require.Equal(s, j.Name, j.Status.BackupRef.Name)
	require.NotNil(s, j.Status.CompletedAt)
	require.True(s, meta.IsStatusConditionTrue(j.Status.Conditions, backupsv1alpha1.ConditionReady))
	require.Nil(s, meta.FindStatusCondition(j.Status.Conditions, backupsv1alpha1.ConditionStalled))
	require.Equal(s, backupsv1alpha1.BackupReady, s.backup(j.Name).Status.Phase)
}

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
