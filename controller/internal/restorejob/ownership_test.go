package restorejob

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/etcd"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

func has(u *unstructured.Unstructured, path ...string) bool {
	_, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	return found && err == nil
}

// ownFields are the leaves that a restore may own, by the API server's own word.
func ownFields(t *testing.T, u *unstructured.Unstructured) []string {
	t.Helper()
	var owned []string
	for _, e := range u.GetManagedFields() {
		if e.Manager == FieldManager {
			owned = append(owned, leaves("", decodeFields(e))...)
		}
	}
	return owned
}

func leaves(prefix string, fields map[string]any) []string {
	var all []string
	for key, value := range fields {
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			all = append(all, leaves(prefix+"/"+key, below)...)
		} else {
			all = append(all, prefix+"/"+key)
		}
	}
	return all
}

func TestC57cServerSideApplyAfterARestore(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	require.Equal(t, okPhase, g.finish("again").Status.Phase)

	after := g.cluster()
	for _, leaf := range ownFields(t, after) {
		require.Regexp(t, `^/f:spec/f:bootstrap/|^/f:metadata/f:annotations/f:cozy-etcd.io/restored-by$`, leaf)
	}
	require.Equal(t, mainFields(before), mainFields(after, FieldManager), "everybody else owns what they owned before")
	deadline, _ := number(after.Object, "spec", "progressDeadlineSeconds")
	require.EqualValues(t, 600, deadline, "the operator's default is back")

	g.apply(chartCluster(g.ns, false))
	upgraded := g.cluster()
	require.False(t, has(upgraded, "spec", "options"), "the chart took its options away")
	require.True(t, has(upgraded, "spec", "bootstrap"), "and left what is not its own")
	require.Equal(t, after.GetUID(), upgraded.GetUID())
}

// mainFields are the field sets of the object itself, by manager, without those of one manager.
func mainFields(u *unstructured.Unstructured, without ...string) map[string]any {
	var entries []metav1.ManagedFieldsEntry
	for _, e := range u.GetManagedFields() {
		if e.Subresource == "" && (len(without) == 0 || e.Manager != without[0]) {
			entries = append(entries, e)
		}
	}
	return fieldSets(entries)
}

func TestC57aClientSideUpgradeAfterARestore(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.create(newRelease(), newBackup(), newJob("again"))
	old := chartCluster(g.ns, true)
	require.NoError(t, unstructured.SetNestedField(old.Object, int64(700), "spec", "progressDeadlineSeconds"))
	require.NoError(t, g.admin.Create(t.Context(), old.DeepCopy(), client.FieldOwner("helm")))
	g.ops.up()
	before := g.cluster()
	require.Equal(t, okPhase, g.finish("again").Status.Phase)

	after := g.cluster()
	require.Equal(t, mainFields(before), mainFields(after, FieldManager), "everybody else owns what they owned before, the deadline included")
	deadline, _ := number(after.Object, "spec", "progressDeadlineSeconds")
	require.EqualValues(t, 700, deadline, "the deadline is the captured one again")

	upgradeClientSide(t, g, old, chartCluster(g.ns, false))
	upgraded := g.cluster()
	require.False(t, has(upgraded, "spec", "options"))
	require.True(t, has(upgraded, "spec", "bootstrap"))
	require.Equal(t, after.GetUID(), upgraded.GetUID())
}

// upgradeClientSide is what Helm does for a custom resource: a merge patch of the old manifest against the new one.
func upgradeClientSide(t *testing.T, g *rig, old, new *unstructured.Unstructured) {
	t.Helper()
	patch := map[string]any{"spec": map[string]any{}}
	for key := range old.Object["spec"].(map[string]any) {
		if !has(new, "spec", key) {
			patch["spec"].(map[string]any)[key] = nil
		}
	}
	raw, err := json.Marshal(patch)
	require.NoError(t, err)
	require.NoError(t, g.admin.Patch(t.Context(), new, client.RawPatch(types.MergePatchType, raw), client.FieldOwner("helm")))
}

func TestC57SecondRestoreStartsFromTheFirst(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("one")
	require.Equal(t, okPhase, g.finish("one").Status.Phase)
	first := g.cluster()
	g.create(newJob("two"))
	g.source.Key = "p/y.db"
	require.Equal(t, okPhase, g.finish("two").Status.Phase)
	second := g.cluster()
	require.NotEqual(t, first.GetUID(), second.GetUID())
	key, _, _ := unstructured.NestedString(second.Object, "spec", "bootstrap", "restore", "source", "s3", "key")
	require.Equal(t, artifact.PreparedKey("p/y.db", string(g.job("two").UID)), key)
	require.Equal(t, mainFields(first, FieldManager), mainFields(second, FieldManager))
	require.NotContains(t, g.job("two").Status.Message, string(first.GetUID()))
	require.Equal(t, string(g.job("two").UID), second.GetAnnotations()[backupsv1alpha1.AnnotationRestoredBy])
}

func TestC25CaptureIsLossless(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.create(newRelease(), newBackup(), newJob("again"))
	full := chartCluster(g.ns, true)
	for path, value := range map[string]any{
		"affinity":                  map[string]any{"podAntiAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{"weight": int64(100), "podAffinityTerm": map[string]any{"topologyKey": "kubernetes.io/hostname"}}}}},
		"topologySpreadConstraints": []any{map[string]any{"maxSkew": int64(1), "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}},
		"imagePullSecrets":          []any{map[string]any{"name": "pull"}},
		"resources":                 map[string]any{"limits": map[string]any{"cpu": "1", "memory": "512Mi"}},
		"tls":                       map[string]any{"client": map[string]any{"serverSecretRef": map[string]any{"name": "etcd-server-tls"}, "operatorClientSecretRef": map[string]any{"name": "etcd-client-tls"}}, "peer": map[string]any{"secretRef": map[string]any{"name": "etcd-peer-tls"}}},
		"auth":                      map[string]any{"enabled": true, "rootCredentialsSecretRef": map[string]any{"name": "root"}},
		"progressDeadlineSeconds":   int64(1200),
		"futureField":               map[string]any{"x": []any{"y", 1.5, false}},
	} {
		require.NoError(t, unstructured.SetNestedField(full.Object, value, "spec", path))
	}
	require.NoError(t, unstructured.SetNestedMap(full.Object, map[string]any{"size": "20Gi", "storageClassName": "fast"}, "spec", "storage"))
	labels := full.GetLabels()
	labels["example.io/extra"] = "label"
	full.SetLabels(labels)
	annotations := full.GetAnnotations()
	annotations["helm.sh/resource-policy"], annotations["example.io/extra"] = "keep", "annotation"
	full.SetAnnotations(annotations)
	owner := g.helmRelease()
	full.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}})
	g.apply(full)
	g.ops.up()
	g.proven.AuthEnabled = true
	g.secret("root", map[string][]byte{"username": []byte("root"), "password": []byte("p")})
	g.refuseRead = func(as etcd.Target) error {
		if as.User != "root" || as.Password != "p" {
			return errors.New("etcdserver: user name is empty")
		}
		return nil
	}
	before := g.cluster()
	require.True(t, has(before, "spec", "futureField", "x"), "the API server kept the unknown field")
	require.Equal(t, okPhase, g.finish("again").Status.Phase)

	after := withoutBootstrap(g.cluster())
	require.Equal(t, normal(before.Object["spec"].(map[string]any)), normal(after.Object["spec"].(map[string]any)))
	require.Equal(t, before.GetLabels(), after.GetLabels())
	require.Equal(t, before.GetOwnerReferences(), after.GetOwnerReferences())
	kept := after.GetAnnotations()
	delete(kept, backupsv1alpha1.AnnotationRestoredBy)
	require.Equal(t, before.GetAnnotations(), kept)
}

func TestDeadlineIsRaisedOnlyWhereItIsTooShort(t *testing.T) {
	for _, c := range []struct {
		captured any
		timeout  int64
		want     any
	}{
		{nil, 600, nil}, {nil, 601, int64(601)}, {int64(300), 600, int64(600)}, {int64(1800), 900, int64(1800)}, {int64(900), 900, int64(900)},
	} {
		r := &record.Record{TimeoutSeconds: c.timeout, Cluster: map[string]any{"spec": map[string]any{}}}
		if c.captured != nil {
			r.Cluster["spec"] = map[string]any{"progressDeadlineSeconds": c.captured}
		}
		u := recreated(r)
		require.Equal(t, c.want, u.Object["spec"].(map[string]any)["progressDeadlineSeconds"], "%+v", c)
		require.Equal(t, c.want != nil && c.want != c.captured, deadlineRaised(u, r), "%+v", c)
	}
}
