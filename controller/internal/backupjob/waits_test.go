package backupjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func TestC17aCredentials(t *testing.T) {
	s := newStage(t)
	secret := s.credentials()
	require.NoError(t, s.Delete(t.Context(), secret))
	j := s.job("nightly")
	result := s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForCredentials, `"creds"`)
	require.Equal(t, recheckCredentials, result.RequeueAfter, "Secrets are not watched")
	require.Contains(t, <-s.recorder.Events, backupsv1alpha1.ReasonWaitingForCredentials)

	bad := s.credentials()
	delete(bad.StringData, "AWS_SECRET_ACCESS_KEY")
	s.create(bad)
	other := s.job("other")
	s.rest(other)
	s.requireFailed(other, backupsv1alpha1.ReasonCredentialsSecretInvalid, "AWS_SECRET_ACCESS_KEY")

	require.NoError(t, s.Delete(t.Context(), bad))
	s.now = s.now.Add(DefaultDeadline)
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonDeadlineExceeded, backupsv1alpha1.ReasonWaitingForCredentials)

	third := s.job("third")
	s.rest(third)
	s.create(s.credentials())
	s.rest(third)
	require.NotEmpty(t, s.snapshot(third).Name)
}

func TestC17bClass(t *testing.T) {
	s := newStage(t)
	class := s.classObject(backupstrategy.StrategyRef(s.class))
	require.NoError(t, s.Delete(t.Context(), class))
	j, patient := s.job("nightly"), s.job("patient")
	s.rest(patient)
	result := s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForBackupClass, s.class)
	require.True(t, meta.IsStatusConditionFalse(j.Status.Conditions, backupsv1alpha1.ConditionResolved))
	require.Equal(t, defaultBootstrap, result.RequeueAfter)

	s.now = s.now.Add(defaultBootstrap)
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonBackupClassNotFound, s.class)

	s.now = s.now.Add(-time.Second)
	s.create(s.classObject(backupstrategy.StrategyRef(s.class)))
	s.rest(patient)
	require.NotEmpty(t, s.snapshot(patient).Name)
	require.True(t, meta.IsStatusConditionTrue(patient.Status.Conditions, backupsv1alpha1.ConditionResolved))
}

func TestC17bStrategy(t *testing.T) {
	s := newStage(t)
	require.NoError(t, s.Delete(t.Context(), s.strategyObject()))
	j := s.job("nightly")
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForStrategy, s.class)
	s.now = s.now.Add(defaultBootstrap)
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonStrategyNotFound, s.class)
}

func TestC17cNoRow(t *testing.T) {
	s := newStage(t)
	s.editClass(func(c *backupsv1alpha1.BackupClass) { c.Spec.Strategies[0].Application.Kind = "Postgres" })
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonNoMatchingStrategy, s.class)
}

func (s *stage) editClass(edit func(*backupsv1alpha1.BackupClass)) {
	s.Helper()
	class := &backupsv1alpha1.BackupClass{}
	require.NoError(s, s.Get(s.Context(), client.ObjectKey{Name: s.class}, class))
	edit(class)
	require.NoError(s, s.Update(s.Context(), class))
}

func TestC17dClassChangesDuringTheRun(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.rest(j)
	s.editClass(func(c *backupsv1alpha1.BackupClass) {
		c.Spec.Strategies[0].StrategyRef.Name = "another"
		c.Spec.Strategies[0].Parameters["bucket"] = "elsewhere"
	})
	s.rest(j)
	s.complete(s.snapshot(j))
	s.rest(j)
	s.requireSucceeded(j)
	b := s.backup("nightly")
	require.Equal(t, s.class, b.Spec.StrategyRef.Name)
	require.Equal(t, "backups", b.Spec.DriverMetadata[backupsv1alpha1.MetadataBucket])
	require.Contains(t, string(b.Status.UnderlyingResources.Raw), `"parameters":{"bucket":"backups"}`)
}

func TestC17eParked(t *testing.T) {
	s := newStage(t)
	c := s.getCluster()
	c.Spec.Replicas = new(int32)
	require.NoError(t, s.Update(t.Context(), c))
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonClusterParked, "replicas 0")
}

func (s *stage) getCluster() *etcdv1alpha2.EtcdCluster {
	s.Helper()
	c := &etcdv1alpha2.EtcdCluster{}
	require.NoError(s, s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "etcd"}, c))
	return c
}

func TestC17fSnapshotThatNeverEnds(t *testing.T) {
	for _, phase := range []etcdv1alpha2.EtcdSnapshotPhase{"", etcdv1alpha2.SnapshotPending, etcdv1alpha2.SnapshotStarted} {
		t.Run(string(phase), func(t *testing.T) {
			s := newStage(t)
			j := s.job("nightly")
			s.rest(j)
			snapshot := s.snapshot(j)
			if phase != "" {
				s.phase(snapshot, phase, etcdv1alpha2.ReasonJobCreated, "snapshot job created")
			}
			s.now = s.now.Add(time.Minute)
			s.rest(j)
			s.requireWaiting(j, s.ready(j).Reason, snapshot.Name)
			require.Contains(t, j.Status.Message, map[bool]string{true: "does it run?", false: "snapshot job created"}[phase == ""])

			s.now = j.Status.StartedAt.Add(DefaultDeadline)
			s.pass(j)
			s.requireFailed(j, backupsv1alpha1.ReasonDeadlineExceeded, snapshot.Name)
			failed := j.DeepCopy()

			s.now = s.now.Add(time.Second)
			s.complete(s.snapshot(j)) // a late success, before the snapshot is taken away
			s.rest(j)
			require.Equal(t, failed.Status, j.Status)
			require.Empty(t, s.backups())

			s.snapshot(j)
			late := s.snapshot(j)
			late.Status.Artifact = nil
			s.phase(late, etcdv1alpha2.SnapshotStarted, etcdv1alpha2.ReasonJobRunning, "again")
			s.rest(j)
			require.Empty(t, s.snapshots(), "an unfinished snapshot is taken away")
			s.rest(j)
			require.Equal(t, failed.Status, j.Status)
		})
	}
}

func TestC17gSnapshotDeletedByHand(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.rest(j)
	require.NoError(t, s.Delete(t.Context(), s.snapshot(j)))
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonSnapshotGone, "deleted")
	require.Empty(t, s.snapshots(), "it is not made again")
}

func TestC20OneMemberDown(t *testing.T) {
	s := newStage(t)
	s.setMember(s.getMember("etcd-2"), false, true)
	j := s.job("nightly")
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonSnapshotRunning, "")
}

func TestC20LearnerAndForeignMembersDoNotCount(t *testing.T) {
	s := newStage(t)
	c := s.getCluster()
	s.member(c, "etcd-learner", false, false)
	s.member(s.cluster("another", 0), "etcd-old", true, true)
	s.setMember(s.getMember("etcd-1"), false, true)
	s.setMember(s.getMember("etcd-2"), false, true)
	j := s.job("nightly")
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForQuorum, "1 of 3 voters are ready, 2 are needed")

	s.setMember(s.getMember("etcd-1"), true, true)
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonSnapshotRunning, "")
}

func TestC20QuorumLost(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{"etcd-1", "etcd-2"} {
		s.setMember(s.getMember(name), false, true)
	}
	c := s.getCluster()
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: etcdv1alpha2.ConditionAvailable, Status: metav1.ConditionFalse, Reason: etcdv1alpha2.ReasonQuorumLost, LastTransitionTime: metav1.NewTime(s.now),
	})
	require.NoError(t, s.Status().Update(t.Context(), c))
	j := s.job("nightly")
	result := s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForQuorum, "1 of 3")
	require.Equal(t, defaultQuorumGrace, result.RequeueAfter)
	s.now = s.now.Add(defaultQuorumGrace)
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonQuorumLost, "1 of 3 voters are ready, 2 are needed")
}

func TestC23MissingParameter(t *testing.T) {
	s := newStage(t)
	s.editClass(func(c *backupsv1alpha1.BackupClass) {
		c.Spec.Strategies[0].Parameters = map[string]string{"bukket": "backups"}
	})
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonTemplateInvalid, `"bucket"`)
	require.Contains(t, j.Status.Message, "spec.template.destination.s3.bucket")
	require.Empty(t, s.snapshots())
}

func TestC37BadEndpoint(t *testing.T) {
	s := newStage(t)
	strategy := s.strategyObject()
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(strategy), strategy))
	strategy.Spec.Template.Destination.S3.Endpoint = "https://key:hunter2@s3.example"
	require.NoError(t, s.Update(t.Context(), strategy))
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonDestinationInvalid, "spec.template.destination.s3.endpoint")
	require.NotContains(t, j.Status.Message, "hunter2")
}

func TestApplicationFromTheHelmRelease(t *testing.T) {
	s := newStage(t)
	s.r.flux = true
	strategy := s.strategyObject()
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(strategy), strategy))
	strategy.Spec.Template.Destination.S3.Key = "{{ .Application.metadata.namespace }}/{{ .Application.spec.folder }}"
	require.NoError(t, s.Update(t.Context(), strategy))
	s.create(&fluxv2.HelmRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "etcd"},
		Spec: fluxv2.HelmReleaseSpec{
			Interval: metav1.Duration{Duration: time.Minute}, ChartRef: &fluxv2.ChartRef{Kind: "HelmChart", Name: "etcd"},
			Values: &apiextensionsv1.JSON{Raw: []byte(`{"folder":"mine"}`)},
		},
	})
	j := s.job("nightly")
	s.rest(j)
	require.Equal(t, s.namespace+"/mine/", s.snapshot(j).Spec.Destination.S3.Key)
}

func TestC60ApplicationGone(t *testing.T) {
	s := newStage(t)
	require.NoError(t, s.Delete(t.Context(), s.getCluster()))
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonApplicationNotFound, `"etcd"`)
}

func TestClusterOfAnInstalledReleaseIsAwaited(t *testing.T) {
	s := newStage(t)
	s.r.flux = true
	require.NoError(t, s.Delete(t.Context(), s.getCluster()))
	s.create(&fluxv2.HelmRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "etcd"},
		Spec:       fluxv2.HelmReleaseSpec{Interval: metav1.Duration{Duration: time.Minute}, ChartRef: &fluxv2.ChartRef{Kind: "HelmChart", Name: "etcd"}},
	})
	j := s.job("nightly")
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonClusterNotFound, `"etcd"`)
}
