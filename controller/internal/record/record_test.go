package record

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// A fake client is enough here: ConfigMaps have no schema, and of the API server's behaviour only the resource version counts.
func newStore() *Store {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	return &Store{Client: c, Reader: c, Namespace: "cozy-etcd"}
}

func sample(t *testing.T, uid types.UID) *Record {
	t.Helper()
	r := &Record{
		Job: Job{Namespace: "tenant", Name: "again", UID: uid}, Application: "etcd", CreatedAt: metav1.NewTime(time.Unix(1000, 0)),
		Source: Source{Endpoint: "https://s3", Bucket: "b", Key: "k.db", CredentialsSecretName: "creds"}, TimeoutSeconds: 60, SpecFrom: FromLive,
		Release: &Release{Name: "etcd", UID: "h", Suspend: new(false)},
	}
	require.NoError(t, r.SetCluster(map[string]any{"spec": map[string]any{"replicas": int64(3), "future": []any{"x", 1.5, nil}}}))
	r.Intend(StepSuspend, time.Unix(1001, 0))
	return r
}

func TestC25RecordKeepsTheCapturedObjectAsItWas(t *testing.T) {
	ctx, s := context.Background(), newStore()
	none, err := s.Get(ctx, "u1")
	require.NoError(t, err)
	require.Nil(t, none)

	r := sample(t, "u1")
	require.NoError(t, s.Save(ctx, r))
	got, err := s.Get(ctx, "u1")
	require.NoError(t, err)
	require.Equal(t, r.Cluster, got.Cluster)
	require.Equal(t, r.SHA256, got.SHA256)
	require.True(t, got.Intended(StepSuspend))
	require.False(t, got.Intended(StepDelete))
	require.False(t, got.Release.WasSuspended())
	require.NotNil(t, got.Release.Suspend, "an explicit false is not an absent field")

	require.NoError(t, s.Delete(ctx, Name("u1")))
	require.NoError(t, s.Delete(ctx, Name("u1")), "removing it twice is no error")
}

func TestC61SavesOnlyOverTheVersionThatWasRead(t *testing.T) {
	ctx, s := context.Background(), newStore()
	require.NoError(t, s.Save(ctx, sample(t, "u1")))
	err := s.Save(ctx, sample(t, "u1"))
	require.ErrorIs(t, err, ErrChanged, "a second creation")
	require.Equal(t, fault.Conflict, fault.ClassOf(err))

	a, err := s.Get(ctx, "u1")
	require.NoError(t, err)
	b, err := s.Get(ctx, "u1")
	require.NoError(t, err)
	a.Intend(StepDelete, time.Unix(2000, 0))
	require.NoError(t, s.Save(ctx, a))
	require.ErrorIs(t, s.Save(ctx, b), ErrChanged)
	require.NoError(t, s.Save(ctx, a), "the version moves along")
}

func TestRecordThatWasTamperedWithIsRefused(t *testing.T) {
	ctx, s := context.Background(), newStore()
	require.NoError(t, s.Save(ctx, sample(t, "u1")))
	edit := func(change func(*corev1.ConfigMap)) error {
		cm := &corev1.ConfigMap{}
		require.NoError(t, s.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: Name("u1")}, cm))
		saved := cm.DeepCopy()
		change(cm)
		require.NoError(t, s.Client.Update(ctx, cm))
		_, err := s.Get(ctx, "u1")
		saved.ResourceVersion = ""
		require.NoError(t, s.Client.Update(ctx, saved))
		return err
	}
	require.ErrorContains(t, edit(func(cm *corev1.ConfigMap) {
		cm.Data[documentKey] = strings.Replace(cm.Data[documentKey], `"sha256": "`, `"sha256": "0`, 1)
	}), "was changed by somebody")
	require.ErrorContains(t, edit(func(cm *corev1.ConfigMap) {
		cm.Data[documentKey] = strings.Replace(cm.Data[documentKey], `"formatVersion": 1`, `"formatVersion": 2`, 1)
	}), "format version 2")
	require.Error(t, edit(func(cm *corev1.ConfigMap) { cm.BinaryData[clusterKey] = []byte("x") }))
	require.Error(t, edit(func(cm *corev1.ConfigMap) { delete(cm.Data, documentKey) }))
}

func TestOlderIsTheNewestKeptRecordOfTheSameApplication(t *testing.T) {
	ctx, s := context.Background(), newStore()
	save := func(uid types.UID, at int64, change func(*Record)) {
		r := sample(t, uid)
		r.CreatedAt = metav1.NewTime(time.Unix(at, 0))
		r.Outcome = &Outcome{Reason: "BootstrapFailed", Keep: true, At: metav1.NewTime(time.Unix(at, 0))}
		change(r)
		require.NoError(t, s.Save(ctx, r))
	}
	save("old", 1, func(*Record) {})
	save("new", 2, func(*Record) {})
	save("own", 9, func(*Record) {})
	save("running", 8, func(r *Record) { r.Outcome = nil })
	save("not-kept", 7, func(r *Record) { r.Outcome.Keep = false })
	save("elsewhere", 6, func(r *Record) { r.Job.Namespace = "other" })
	save("another", 5, func(r *Record) { r.Application = "etcd-b" })
	got, err := s.Older(ctx, "tenant", "etcd", "own")
	require.NoError(t, err)
	require.Equal(t, types.UID("new"), got.Job.UID)
	for _, uid := range []types.UID{"new", "old"} {
		own, err := s.Get(ctx, "own")
		require.NoError(t, err)
		own.Outcome.At = metav1.NewTime(time.Unix(9, 0))
		got, err = s.Outlived(ctx, own)
		require.NoError(t, err)
		require.Equal(t, uid, got.Job.UID)
		own.Outcome.At = metav1.NewTime(time.Unix(0, 0))
		later, err := s.Outlived(ctx, own)
		require.NoError(t, err)
		require.Nil(t, later, "a record that was kept since is not out of date")
		require.NoError(t, s.Delete(ctx, Name(uid)))
	}
	got, err = s.Older(ctx, "nobody", "etcd", "own")
	require.NoError(t, err)
	require.Nil(t, got)
}
