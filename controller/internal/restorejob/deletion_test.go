package restorejob

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

func TestC60NamespaceDeletedDuringARestore(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	require.NoError(t, g.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.ns}}))
	g.run("again", func(j *backupsv1alpha1.RestoreJob) bool { return j == nil })
	require.Nil(t, g.suspended(), "Flux may uninstall")
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	g.await(func() bool {
		return apierrors.IsNotFound(g.admin.Get(t.Context(), client.ObjectKey{Name: g.ns}, &corev1.Namespace{}))
	})
}

func TestC60ReleaseDeletedAfterTheDeletionIsNotResurrected(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.patchCluster(`{"metadata":{"finalizers":["tests/hold"]}}`)
	g.when("again", backupsv1alpha1.ReasonWaitingForDeletion)
	require.NoError(t, g.admin.Delete(t.Context(), g.helmRelease()))
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonAborted, condition(job, "Stalled"))
	require.Nil(t, g.suspended(), "helm-controller may uninstall")
	require.Equal(t, []string{"tests/helm"}, g.helmRelease().GetFinalizers())
	g.patchRelease(`{"metadata":{"finalizers":null}}`)
	g.patchCluster(`{"metadata":{"finalizers":null}}`)
	g.await(func() bool { return g.cluster() == nil })
	for range 5 {
		_, err := g.once("again")
		require.NoError(t, err)
		require.Nil(t, g.cluster())
	}
	require.Empty(t, g.records())
}

func TestC61ConflictsOnTheFirstWrites(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	seen := map[string]int{}
	g.fail = func(name string, o client.Object) error {
		if seen[name]++; seen[name] > 3 || strings.HasPrefix(name, "delete") || strings.HasSuffix(name, "EtcdCluster") && strings.HasPrefix(name, "create") {
			return nil
		}
		if strings.HasPrefix(name, "dry-run") {
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: "x"}, o.GetName(), errors.New("changed meanwhile"))
	}
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase)
	created := 0
	for _, w := range g.writes {
		if w == "create EtcdCluster" {
			created++
		}
	}
	require.Equal(t, 1, created, "%q", g.writes)
}

func TestUnknownOptionIsRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	job := newJob("again")
	job.Spec.Options = &runtime.RawExtension{Raw: []byte(`{"restoreTimeout":60}`)}
	g.create(newBackup(), job)
	require.Equal(t, "True/"+backupsv1alpha1.ReasonOptionsInvalid, condition(g.finish("again"), "Stalled"))
}

// A record that somebody edited is not trusted, and the job says so instead of standing still.
func TestTamperedRecordIsShown(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.run("again", func(*backupsv1alpha1.RestoreJob) bool { return len(g.records()) == 1 })
	before := g.cluster()
	cm := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: ownNamespace, Name: record.Name(g.job("again").UID)}
	require.NoError(t, g.admin.Get(t.Context(), key, cm))
	sound := cm.DeepCopy()
	cm.Data["record.json"] = strings.Replace(cm.Data["record.json"], `"sha256": "`, `"sha256": "0`, 1)
	require.NoError(t, g.admin.Update(t.Context(), cm))
	_, err := g.once("again")
	require.Error(t, err)
	require.Contains(t, g.job("again").Status.Message, "it was changed by somebody")
	require.Equal(t, before.GetUID(), g.cluster().GetUID())

	sound.ResourceVersion = ""
	require.NoError(t, g.admin.Update(t.Context(), sound))
	require.Equal(t, okPhase, g.finish("again").Status.Phase)
}
