package restorejob

import (
	"slices"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// noSpace is how etcd names the alarm of a full database.
const noSpace = "NOSPACE"

// disarms tells that a NOSPACE alarm is all that is wrong, and that no member is near its quota: the alarm came along with the snapshot. etcd itself never
// lifts one.
func (s Seen) disarms() bool {
	if !s.complete() || s.Record.Outcome != nil {
		return false
	}
	alarmed := false
	for _, m := range s.Members {
		e := m.Etcd
		if !e.Asked || e.Error != "" || e.ClusterID != s.Cluster.ClusterID || e.DBSize >= s.Cluster.QuotaBytes {
			return false
		}
		if slices.ContainsFunc(e.Alarms, func(a string) bool { return !strings.Contains(a, noSpace) }) {
			return false
		}
		alarmed = alarmed || len(e.Alarms) > 0
	}
	return alarmed
}

func disarm(Seen) Decision {
	return do(ActionDisarm, backupsv1alpha1.ReasonDisarming, "lifting the NOSPACE alarm that came along in the snapshot: the database fits its quota")
}
