package backupjob

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/metrics"
)

// failing makes one pass that ends in an error.
func (s *stage) failing(j *backupsv1alpha1.BackupJob) {
	s.Helper()
	_, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
	require.Error(s, err)
	require.NoError(s, s.Get(s.Context(), client.ObjectKeyFromObject(j), j))
}

// C17: what cannot be read is a wait like any other: it shows, and the deadline ends it. One error at the deadline ends nothing.
func TestC17WhatCannotBeReadEndsAtTheDeadline(t *testing.T) {
	s := newStage(t)
	s.r.APIReader = interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				return errors.New("no route to the API server")
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	j := s.job("nightly")
	s.pass(j)
	late := s.now.Add(DefaultDeadline)
	s.failing(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonRetrying, `read Secret "creds": no route`)
	s.now = late
	s.pass(j)
	s.requireFailed(j, backupsv1alpha1.ReasonDeadlineExceeded, "no route")

	s.now = s.now.Add(-DefaultDeadline)
	once := s.job("once")
	s.pass(once)
	s.now = late
	s.failing(once)
	s.requireWaiting(once, backupsv1alpha1.ReasonRetrying, "no route")
}

// C17: a snapshot that was complete in time waits for its Backup beyond the deadline, but not for a quota or a policy.
func TestC17BackupThatIsForbidden(t *testing.T) {
	s := newStage(t)
	var refusal error
	s.r = s.reconciler(interceptor.NewClient(platform(t).Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*backupsv1alpha1.Backup); ok {
				return refusal
			}
			return c.Create(ctx, o, opts...)
		},
	}))
	j := s.job("nightly")
	s.rest(j)
	s.complete(s.snapshot(j))
	refusal = apierrors.NewForbidden(schema.GroupResource{Resource: "backups"}, "nightly", errors.New("exceeded quota: count/backups"))
	s.failing(j)
	s.now = s.now.Add(DefaultDeadline)
	refusal = apierrors.NewServiceUnavailable("try again")
	s.failing(j)
	require.Equal(t, backupsv1alpha1.BackupJobRunning, j.Status.Phase)
	refusal = apierrors.NewForbidden(schema.GroupResource{Resource: "backups"}, "nightly", errors.New("exceeded quota: count/backups"))
	s.pass(j)
	s.requireFailed(j, backupsv1alpha1.ReasonDeadlineExceeded, "exceeded quota")
	require.NotEmpty(t, s.snapshot(j).Name, "what it stored can still be found")
}

func TestCredentialsWithALineBreak(t *testing.T) {
	s := newStage(t)
	bad := s.credentials()
	require.NoError(t, s.Delete(t.Context(), s.credentials()))
	bad.StringData["AWS_SECRET_ACCESS_KEY"] += "\n"
	s.create(bad)
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonCredentialsSecretInvalid, "key AWS_SECRET_ACCESS_KEY has a line break")
	require.NotContains(t, j.Status.Message, "hunter2")
}

// C17: a strategy reference without a group belongs to nobody. Left alone, the job would never get a word.
func TestC17StrategyWithoutAGroup(t *testing.T) {
	s := newStage(t)
	s.editClass(func(c *backupsv1alpha1.BackupClass) { c.Spec.Strategies[0].StrategyRef.APIGroup = nil })
	j := s.job("nightly")
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonStrategyKindUnsupported, "apiGroup strategy.backups.cozystack.io")
}

// A clock that was wrong when startedAt was written: the time of the next look follows the deadline that counts.
func TestStartOfTheFuture(t *testing.T) {
	s := newStage(t)
	right := s.now
	s.now = right.AddDate(10, 0, 0)
	require.NoError(t, s.Delete(t.Context(), s.credentials()))
	j := s.job("nightly")
	s.pass(j)
	s.now = right
	s.rest(j)
	s.requireWaiting(j, backupsv1alpha1.ReasonWaitingForCredentials, "creds")
	s.now = right.Add(26 * time.Hour)
	s.rest(j)
	s.requireFailed(j, backupsv1alpha1.ReasonDeadlineExceeded, "creds")
}

// The age of an application's last backup is told as long as one of its Backups is there, and not for ever after.
func TestTheAgeOfAnUninstalledApplicationIsForgotten(t *testing.T) {
	s := newStage(t)
	j := s.job("nightly")
	s.drive(j, nil)
	s.requireSucceeded(j)
	gone := func() {
		_, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
		require.NoError(t, err)
	}
	told := func() bool { return s.r.ages.knows(s.namespace) }
	require.True(t, told())
	require.NoError(t, s.Delete(t.Context(), j))
	gone()
	require.True(t, told())
	require.InDelta(t, float64(s.now.Unix()), testutil.ToFloat64(metrics.LastBackup.WithLabelValues(s.namespace, "etcd")), 1)
	s.r.ages = ages{}
	metrics.LastBackup.DeleteLabelValues(s.namespace, "etcd")
	gone()
	require.True(t, told(), "a controller that starts anew knows it from the Backup")
	require.InDelta(t, float64(time.Now().Unix()), testutil.ToFloat64(metrics.LastBackup.WithLabelValues(s.namespace, "etcd")), 120)
	require.NoError(t, s.Delete(t.Context(), s.backup("nightly")))
	gone()
	require.False(t, told())
	require.False(t, metrics.LastBackup.DeleteLabelValues(s.namespace, "etcd"), "no such series any more")
}
