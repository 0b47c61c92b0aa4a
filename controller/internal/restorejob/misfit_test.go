package restorejob

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

func TestMisfit(t *testing.T) {
	for _, c := range []struct {
		name   string
		size   any // of the volume
		proof  record.Proof
		live   types.UID
		reason string
	}{
		{"it fits", "4Gi", record.Proof{SizeBytes: 1 << 30}, "u", ""},
		{"too small a volume", "1Gi", record.Proof{SizeBytes: 1 << 30}, "u", backupsv1alpha1.ReasonVolumeTooSmall},
		{"the same as a whole number of bytes", int64(1 << 30), record.Proof{SizeBytes: 1 << 30}, "u", backupsv1alpha1.ReasonVolumeTooSmall},
		{"no size", nil, record.Proof{SizeBytes: 1 << 30}, "u", ""},
		{"corrupt, beside a live cluster", "4Gi", record.Proof{CorruptMember: "b2"}, "u", backupsv1alpha1.ReasonCorruptAlarm},
		{"corrupt, and nothing else is left", "4Gi", record.Proof{CorruptMember: "b2"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := map[string]any{"version": "3.6.11", "storage": map[string]any{}}
			if c.size != nil {
				spec["storage"] = map[string]any{"size": c.size}
			}
			c.proof.Minor = "3.6"
			problem, err := misfit(&record.Record{Cluster: map[string]any{"spec": spec}, Proof: &c.proof, OldUID: c.live}, []string{"3.6"})
			require.NoError(t, err)
			if c.reason == "" {
				require.Nil(t, problem)
				return
			}
			require.NotNil(t, problem)
			require.Equal(t, c.reason, problem.Reason)
		})
	}
}
