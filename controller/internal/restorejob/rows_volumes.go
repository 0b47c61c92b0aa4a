package restorejob

import (
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Names of the rows about the volumes of the former cluster.
const (
	RowIntendKeep      = "IntendKeepVolumes"
	RowKeepVolume      = "KeepVolume"
	RowGiveVolumesBack = "GiveVolumesBack"
)

// Actions on the volumes of the former cluster.
const (
	ActionIntendKeep      Action = "IntendKeepVolumes" // the record: which volumes, with their reclaim policies
	ActionKeepVolume      Action = "KeepVolume"        // a PersistentVolume
	ActionGiveVolumesBack Action = "GiveVolumesBack"   // a PersistentVolume
)

// VolumeFacts are the volumes of the live cluster that are to outlive it, by name.
type VolumeFacts struct {
	Wanted   bool
	Intended bool
	Loose    []string // not kept yet
	Kept     []string // by this restore
}

// volumeRows keep the volumes of the live cluster, one at a time, before it is deleted.
var volumeRows = []Row{
	{RowIntendKeep, func(s Seen) bool { return reversible(s) && s.Volumes.Wanted && !s.Volumes.Intended }, intendKeep},
	{RowKeepVolume, func(s Seen) bool { return reversible(s) && len(s.Volumes.Loose) > 0 }, keepVolume},
}

func intendKeep(Seen) Decision {
	return intend(ActionIntendKeep, backupsv1alpha1.ReasonSuspending, "listing the volumes that outlive the cluster")
}

func keepVolume(s Seen) Decision {
	return do(ActionKeepVolume, backupsv1alpha1.ReasonSuspending, "keeping volume %s beyond the cluster", s.Volumes.Loose[0])
}

// unneeded tells that volumes are kept of a cluster that is not deleted after all.
func (s Seen) unneeded() bool {
	return decided(s) && !s.Record.DeleteIntended && len(s.Volumes.Kept) > 0
}

func giveVolumesBack(s Seen) Decision {
	return do(ActionGiveVolumesBack, backupsv1alpha1.ReasonResuming, "giving the volumes back their reclaim policy: %s", strings.Join(s.Volumes.Kept, ", "))
}
