package restorejob

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

const releaseManifest = `---
# Source: etcd/templates/issuer.yaml
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: etcd-issuer}
spec: {selfSigned: {}}
---
# Source: etcd/templates/etcdcluster.yaml
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata:
  name: etcd
  labels: {chart.example/label: "yes"}
spec:
  version: 3.6.11
  replicas: 1
  storage: {size: 3Gi}
  options: {quotaBackendBytes: 3060164198, snapshotCount: 10000}
---
`

// helmRecord is how Helm stores a release.
func helmRecord(t *testing.T, ns string) *corev1.Secret {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"name": "etcd", "manifest": releaseManifest})
	require.NoError(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(raw)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sh.helm.release.v1.etcd.v7"}, Type: "helm.sh/release.v1",
		Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))},
	}
}

// deployed makes a HelmRelease whose history names Helm's record.
func (g *rig) deployed() {
	g.t.Helper()
	g.create(newRelease(), helmRecord(g.t, g.ns))
	hr := &fluxv2.HelmRelease{}
	require.NoError(g.t, g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: "etcd"}, hr))
	at := metav1.Now()
	snapshot := func(version int, status string) fluxv2.Snapshot {
		return fluxv2.Snapshot{Name: "etcd", Namespace: g.ns, Version: version, Status: status, ChartName: "etcd", ChartVersion: "1", FirstDeployed: at, LastDeployed: at}
	}
	hr.Status.History = []fluxv2.Snapshot{snapshot(8, "failed"), snapshot(7, "deployed"), snapshot(6, "superseded")}
	require.NoError(g.t, g.admin.Status().Update(g.t.Context(), hr))
}

func TestRestoreWithoutALiveClusterFromTheBackup(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	backup := newBackup()
	backup.Spec.DriverMetadata[backupsv1alpha1.MetadataClusterSpec] = `{"version":"3.6.11","replicas":3,"storage":{"size":"2Gi"},"futureField":{"x":1},"bootstrap":{}}`
	g.create(backup, newJob("again"))
	g.deployed()
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Contains(t, messageOf(job, "Captured"), "of the spec from Backup")
	u := g.cluster()
	require.True(t, has(u, "spec", "futureField", "x"))
	size, _, _ := nested(u, "spec", "storage", "size")
	require.Equal(t, "2Gi", size)
	require.Equal(t, map[string]string{"chart.example/label": "yes", "app.kubernetes.io/managed-by": "Helm"}, u.GetLabels(), "the metadata come from the manifest")
	require.Equal(t, "etcd", u.GetAnnotations()["meta.helm.sh/release-name"])
	require.Nil(t, g.suspended())
}

func TestRestoreWithoutALiveClusterFromTheHelmRelease(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.create(newBackup(), newJob("again"))
	g.deployed()
	job := g.finish("again")
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Contains(t, messageOf(job, "Captured"), "of the spec from HelmRelease")
	u := g.cluster()
	quota, _ := number(u.Object, "spec", "options", "quotaBackendBytes")
	require.EqualValues(t, 3060164198, quota)
	require.Contains(t, job.Status.Message, "all 1 members")
	for _, leaf := range ownFields(t, u) {
		require.Regexp(t, `^/f:spec/f:bootstrap/|^/f:metadata/f:annotations/f:cozy-etcd.io/restored-by$`, leaf, "Flux can take every other field away")
	}
}

func TestRestoreWithoutAnySpecIsRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.create(newRelease(), newBackup(), newJob("again"))
	job := g.finish("again")
	require.Equal(t, "True/"+backupsv1alpha1.ReasonSpecUnavailable, condition(job, "Stalled"))
	require.Empty(t, g.records())
}

func TestManifestInRefusesWhatIsNoRelease(t *testing.T) {
	for _, bad := range []string{"", "%", base64.StdEncoding.EncodeToString([]byte("x")), base64.StdEncoding.EncodeToString([]byte{0x1f, 0x8b, 0x08, 1})} {
		_, err := manifestIn([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
	found, err := clusterIn(releaseManifest, "another")
	require.NoError(t, err)
	require.Nil(t, found)
	_, err = clusterIn("kind: [", "etcd")
	require.Error(t, err)
}
