package restorejob

import (
	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// mayReport tells that the report is due. A dry run reports what does not fit, too; a restore that is refused leaves nothing behind.
func (s Seen) mayReport() bool {
	return !s.Reported && (s.Record.DryRun || s.Unfit == nil)
}

func writeReport(Seen) Decision {
	return do(ActionReport, backupsv1alpha1.ReasonReporting, "writing down what the restore changes")
}

func endDryRun(Seen) Decision {
	d := undone(backupsv1alpha1.ReasonDryRun, "the dry run is over: nothing was changed, and the report says what a restore would do")
	d.Outcome.Succeeded = true
	return d
}
