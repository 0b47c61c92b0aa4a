package backup_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy"
	"github.com/cozy-etcd/cozy-etcd/controller/api"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/backup"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/strategy"
	"github.com/cozy-etcd/cozy-etcd/tests/env"
)

var platform *env.Env

// TestMain starts one control plane and the two small controllers around the backup kinds.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var err error
	platform, err = env.Start(ctx, env.Options{Name: "backup", NoOperator: true, NoFlux: true, NoKamaji: true, NoCertManager: true, NoS3: true})
	if err != nil {
		panic(err)
	}
	defer platform.Stop()
	mgr, err := ctrl.NewManager(platform.Config, ctrl.Options{Scheme: api.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		panic(err)
	}
	same := func(r reconcile.Reconciler) reconcile.Reconciler { return r }
	if err := (&backup.Reconciler{Client: mgr.GetClient(), Wrap: same}).SetupWithManager(mgr); err != nil {
		panic(err)
	}
	if err := (&strategy.Reconciler{Client: mgr.GetClient(), Wrap: same}).SetupWithManager(mgr); err != nil {
		panic(err)
	}
	go func() { _ = mgr.Start(ctx) }()
	return m.Run()
}

func meta1(name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: finalizers}
}

func etcdBackup(name, kind string, finalizers ...string) *backupsv1alpha1.Backup {
	ref := backupstrategy.StrategyRef("s")
	ref.Kind = kind
	return &backupsv1alpha1.Backup{ObjectMeta: meta1(name, finalizers...), Spec: backupsv1alpha1.BackupSpec{
		ApplicationRef: corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "etcd"}, StrategyRef: ref, TakenAt: metav1.Now(),
	}}
}

func gone(t *testing.T, o client.Object) func() bool {
	return func() bool {
		return apierrors.IsNotFound(platform.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}
}

func restore(name, backupName, kind string) *backupsv1alpha1.RestoreJob {
	return &backupsv1alpha1.RestoreJob{
		ObjectMeta: meta1(name, backupsv1alpha1.CozystackCleanupFinalizer),
		Spec: backupsv1alpha1.RestoreJobSpec{
			BackupRef: corev1.LocalObjectReference{Name: backupName}, TargetApplicationRef: &corev1.TypedLocalObjectReference{Kind: kind, Name: "x"},
		},
	}
}

func TestC60FinalizersOfADriverThatIsGone(t *testing.T) {
	c := platform.Client
	ours := etcdBackup("ours", "Etcd", backupsv1alpha1.CozystackCleanupFinalizer, backupsv1alpha1.CozystackVeleroCleanupFinalizer)
	shared := etcdBackup("shared", "Etcd", backupsv1alpha1.CozystackCleanupFinalizer, "example.org/audit")
	other := etcdBackup("other", "Postgres", backupsv1alpha1.CozystackCleanupFinalizer)
	alive := etcdBackup("alive", "Etcd", backupsv1alpha1.CozystackCleanupFinalizer)
	released := []*backupsv1alpha1.RestoreJob{restore("by-backup", "alive", "Postgres"), restore("by-target", "nowhere", "Etcd")}
	keptJobs := []*backupsv1alpha1.RestoreJob{restore("not-ours", "other", "Etcd"), restore("unknown", "nowhere", "Postgres")}
	for _, o := range []client.Object{ours, shared, other, alive, released[0], released[1], keptJobs[0], keptJobs[1]} {
		require.NoError(t, c.Create(t.Context(), o))
	}
	for _, o := range []client.Object{released[0], released[1], keptJobs[0], keptJobs[1], ours, shared, other} {
		require.NoError(t, c.Delete(t.Context(), o))
	}
	require.Eventually(t, gone(t, ours), 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, gone(t, released[0]), 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, gone(t, released[1]), 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(shared), shared))
		return len(shared.Finalizers) == 1
	}, 10*time.Second, 20*time.Millisecond)
	require.Equal(t, []string{"example.org/audit"}, shared.Finalizers)
	for _, o := range []client.Object{other, keptJobs[0], keptJobs[1], alive} {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		require.Equal(t, []string{backupsv1alpha1.CozystackCleanupFinalizer}, o.GetFinalizers(), o.GetName())
	}
}

func TestC23StrategyShowsABadTemplate(t *testing.T) {
	c := platform.Client
	s := &strategyv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: strategyv1alpha1.EtcdSpec{Template: strategyv1alpha1.EtcdTemplate{Destination: strategyv1alpha1.EtcdDestination{S3: &strategyv1alpha1.EtcdS3{
			Endpoint: "https://s3.example", Bucket: "{{ .Parameters.bucket }}", Key: "{{ .Application.metadata.namespace }}/", CredentialsSecretRef: strategyv1alpha1.SecretRef{Name: "creds"},
		}}}},
	}
	require.NoError(t, c.Create(t.Context(), s))
	ready := func(status metav1.ConditionStatus) metav1.Condition {
		var found metav1.Condition
		require.Eventually(t, func() bool {
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), s))
			r := meta.FindStatusCondition(s.Status.Conditions, backupsv1alpha1.ConditionReady)
			if r != nil {
				found = *r
			}
			return r != nil && r.Status == status
		}, 10*time.Second, 20*time.Millisecond)
		return found
	}
	require.Equal(t, backupsv1alpha1.ReasonValid, ready(metav1.ConditionTrue).Reason)

	class := &backupsv1alpha1.BackupClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: backupsv1alpha1.BackupClassSpec{Strategies: []backupsv1alpha1.BackupClassStrategy{{
			StrategyRef: backupstrategy.StrategyRef("s"), Application: backupsv1alpha1.ApplicationSelector{Kind: "Etcd"},
		}}},
	}
	require.NoError(t, c.Create(t.Context(), class))
	bad := ready(metav1.ConditionFalse)
	require.Equal(t, backupsv1alpha1.ReasonTemplateInvalid, bad.Reason)
	require.Contains(t, bad.Message, `BackupClass "c", spec.strategies[0]`)
	require.Contains(t, bad.Message, `"bucket"`)

	class.Spec.Strategies[0].Parameters = map[string]string{"bucket": "backups"}
	require.NoError(t, c.Update(t.Context(), class))
	ready(metav1.ConditionTrue)
}
