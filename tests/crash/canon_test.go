package crash

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What a kill could leave behind makes a difference, and what differs from run to run does not.
func TestTheDumpSeesWhatIsLeftBehind(t *testing.T) {
	for _, c := range []struct{ name, one, other, left string }{
		{
			"a lock",
			"{kind: Lease, metadata: {name: etcd-lock.cozy-etcd.io, namespace: tenant-1, labels: {}}, spec: {renewTime: '2026-03-01T12:00:00.000001Z'}}",
			"{kind: Lease, metadata: {name: etcd-lock.cozy-etcd.io, namespace: tenant-2, labels: {}}, spec: {renewTime: '2026-03-01T13:30:00.250000Z'}}",
			"{kind: Lease, metadata: {name: etcd-lock.cozy-etcd.io, namespace: tenant-2, labels: {cozy-etcd.io/fence: 'on'}}, spec: {renewTime: '2026-03-01T13:30:00.250000Z'}}",
		},
		{
			"a volume",
			"{kind: PersistentVolume, metadata: {name: pv-11111111-1111-1111-1111-111111111111, labels: {}}, spec: {claimRef: {namespace: tenant-1, name: data-etcd-bbbbb}}}",
			"{kind: PersistentVolume, metadata: {name: pv-22222222-2222-2222-2222-222222222222, labels: {}}, spec: {claimRef: {namespace: tenant-2, name: data-etcd-ccccc}}}",
			"{kind: PersistentVolume, metadata: {name: pv-22222222-2222-2222-2222-222222222222, labels: {cozy-etcd.io/kept-by: x}}, spec: {claimRef: {namespace: tenant-2, name: data-etcd-ccccc}}}",
		},
		{
			"a report",
			`{kind: ConfigMap, metadata: {name: r-report}, data: {report.json: "{\"writtenAt\": \"2026-03-01T12:00:00Z\", \"objectBytes\": 1, \"keys\": 5}", report.txt: "written 2026-03-01 12:00:00 UTC, 1 bytes"}}`,
			`{kind: ConfigMap, metadata: {name: r-report}, data: {report.json: "{\"writtenAt\": \"2026-03-01T13:30:00Z\", \"objectBytes\": 2, \"keys\": 5}", report.txt: "written 2026-03-01 13:30:00 UTC, 2 bytes"}}`,
			`{kind: ConfigMap, metadata: {name: r-report}, data: {report.json: "{\"writtenAt\": \"2026-03-01T13:30:00Z\", \"objectBytes\": 2, \"keys\": 6}", report.txt: "written 2026-03-01 13:30:00 UTC, 2 bytes"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := canon(t, c.one, "tenant-1")
			require.Empty(t, Difference(one, canon(t, c.other, "tenant-2")))
			require.NotEmpty(t, Difference(one, canon(t, c.left, "tenant-2")))
		})
	}
}

func canon(t *testing.T, text, namespace string) []string {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	line, err := canonical(o, namespace)
	require.NoError(t, err)
	return []string{line}
}
