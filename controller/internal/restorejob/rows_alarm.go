package restorejob

import (
	"slices"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// noSpace is how etcd names the alarm of a full database.
const noSpace = "NOSPACE"

// disarms tells that members answer with a NOSPACE alarm and no other, although none of them is near its quota: it came along with the snapshot, and etcd itself
// never lifts one. It keeps a member from being ready, so that a restored cluster would not come further than its first. This cannot wait until it is whole.
func (s Seen) disarms() bool {
	if !s.latched() {
		return false
	}
	alarmed := false
	for _, m := range s.Members {
		e := m.Etcd
		if !e.Asked || e.Error != "" {
			continue
		}
		foreign := slices.ContainsFunc(e.Alarms, func(a string) bool { return !strings.Contains(a, noSpace) })
		if foreign || e.ClusterID != s.Cluster.ClusterID || e.Revision < s.Record.Revision || e.DBSize >= s.Cluster.QuotaBytes {
			return false
		}
		alarmed = alarmed || len(e.Alarms) > 0
	}
	return alarmed
}

func disarm(Seen) Decision {
	return do(ActionDisarm, backupsv1alpha1.ReasonDisarming, "lifting the NOSPACE alarm that came along in the snapshot: the database fits its quota")
}
