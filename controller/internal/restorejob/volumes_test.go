package restorejob

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// bind gives each claim of the namespace a volume, as a provisioner does.
func (g *rig) bind() (volumes []string) {
	g.t.Helper()
	claims := &corev1.PersistentVolumeClaimList{}
	require.NoError(g.t, g.admin.List(g.t.Context(), claims, client.InNamespace(g.ns)))
	for i := range claims.Items {
		claim := &claims.Items[i]
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: g.ns + "-" + claim.Name},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes: claim.Spec.AccessModes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			},
		}
		require.NoError(g.t, g.admin.Create(g.t.Context(), pv))
		claim.Spec.VolumeName = pv.Name
		require.NoError(g.t, g.admin.Update(g.t.Context(), claim))
		volumes = append(volumes, pv.Name)
	}
	return volumes
}

func (g *rig) volume(name string) *corev1.PersistentVolume {
	g.t.Helper()
	pv := &corev1.PersistentVolume{}
	require.NoError(g.t, g.admin.Get(g.t.Context(), client.ObjectKey{Name: name}, pv))
	return pv
}

func (g *rig) sweep(late time.Duration) {
	g.t.Helper()
	s := &VolumeSweeper{Client: g.admin, Reader: g.admin, Now: func() time.Time { return time.Now().Add(late) }}
	require.NoError(g.t, s.Sweep(g.t.Context()))
}

func TestVolumesOutliveTheClusterForAWhile(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.options("again", map[string]any{"restoreTimeoutSeconds": 900, "keepOldVolumes": "72h"})
	volumes := g.bind()
	require.Len(t, volumes, 3)
	earlier := g.volume(volumes[0]) // kept by a restore that ended without its deletion
	earlier.Labels = map[string]string{backupsv1alpha1.LabelKeptBy: "earlier"}
	earlier.Annotations = map[string]string{
		backupsv1alpha1.AnnotationKeptUntil: time.Now().Add(time.Hour).UTC().Format(time.RFC3339), backupsv1alpha1.AnnotationPriorPolicy: "Delete",
		backupsv1alpha1.AnnotationKeptClaim: string(earlier.Spec.ClaimRef.UID),
	}
	earlier.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	require.NoError(t, g.admin.Update(t.Context(), earlier))
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	for _, name := range volumes {
		pv := g.volume(name)
		require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(t, string(job.UID), pv.Labels[backupsv1alpha1.LabelKeptBy])
		require.Equal(t, "Delete", pv.Annotations[backupsv1alpha1.AnnotationPriorPolicy])
		until, err := time.Parse(time.RFC3339, pv.Annotations[backupsv1alpha1.AnnotationKeptUntil])
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(72*time.Hour), until, 5*time.Minute)
	}
	g.sweep(71 * time.Hour)
	require.NotEmpty(t, g.volume(volumes[0]).Labels, "its time has not come")

	rebound := g.volume(volumes[2])
	rebound.Spec.ClaimRef.UID, rebound.Spec.ClaimRef.Name = "another", "another"
	require.NoError(t, g.admin.Update(t.Context(), rebound))
	g.sweep(73 * time.Hour)
	for i, name := range volumes {
		pv := g.volume(name)
		require.Empty(t, pv.Labels)
		require.Empty(t, pv.Annotations)
		want := corev1.PersistentVolumeReclaimDelete
		if i == 2 {
			want = corev1.PersistentVolumeReclaimRetain
		}
		require.Equal(t, want, pv.Spec.PersistentVolumeReclaimPolicy, "a volume that was bound anew only loses our marks")
	}
}

// A restore that stops before the deletion leaves the volumes as they were.
func TestVolumesOfAClusterThatStaysAreGivenBack(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	g.options("again", map[string]any{"restoreTimeoutSeconds": 900, "keepOldVolumes": "72h"})
	volumes := g.bind()
	before, kept := g.cluster(), 0
	g.fail = func(name string, o client.Object) error {
		if name != "patch PersistentVolume" || len(g.records()) == 0 || g.records()[0].Outcome != nil {
			return nil
		}
		if kept++; kept > 1 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolume"}, o.GetName(), nil)
		}
		return nil
	}
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonVolumesNotKept, condition(job, "Stalled"))
	require.Equal(t, 2, kept, "one was kept, and has to be given back")
	for _, name := range volumes {
		pv := g.volume(name)
		require.Equal(t, corev1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
		require.Empty(t, pv.Labels)
	}
	g.untouched(before)
}

func TestOptionsOfTheWayBack(t *testing.T) {
	o, problem := parseOptions(&runtime.RawExtension{Raw: []byte(`{"safetySnapshot":false,"keepOldVolumes":"1h30m"}`)})
	require.Nil(t, problem)
	require.True(t, o.NoSafety)
	require.Equal(t, 90*time.Minute, o.KeepVolumes)
	o, problem = parseOptions(&runtime.RawExtension{Raw: []byte(`{"safetySnapshot":true}`)})
	require.Nil(t, problem)
	require.Equal(t, [2]any{false, time.Duration(0)}, [2]any{o.NoSafety, o.KeepVolumes}, "as without options")
	for _, bad := range []string{
		`{"safetySnapshot":"no"}`, `{"safetySnapshot":null}`, `{"keepOldVolumes":72}`, `{"keepOldVolumes":"3d"}`, `{"keepOldVolumes":"59m"}`, `{"keepOldVolumes":"2161h"}`,
	} {
		_, problem := parseOptions(&runtime.RawExtension{Raw: []byte(bad)})
		require.NotNil(t, problem, bad)
		require.Contains(t, problem.Message, ": give ")
	}
}

func TestSweeperTellsWhatItCannotDo(t *testing.T) {
	s := &VolumeSweeper{Reader: brokenReader{}, Now: time.Now}
	require.ErrorContains(t, s.Sweep(t.Context()), "list kept PersistentVolumes")
}

type brokenReader struct{ client.Reader }

func (brokenReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}
