package restorejob

import (
	"context"
	"fmt"
	"time"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// Names of the rows that see a deleted release off. They stand before its resumption.
const (
	RowUninstall      = "Uninstall"
	RowAwaitUninstall = "AwaitUninstall"
	RowUninstallLeft  = "UninstallLeft"
)

// Actions of these rows.
const (
	ActionUninstall     Action = "Uninstall"     // the HelmRelease: the suspension and the mark, not our finalizer
	ActionUninstallLeft Action = "UninstallLeft" // the record: what is left
)

const recheckUninstall = 5 * time.Second

// uninstalls tells that Flux has still to uninstall a release that is being deleted. It lets go of a suspended one at once, without an uninstall, and makes up
// for that when it is resumed, but only while our finalizer keeps the object. An administrator's suspension stays, and with it what is installed.
func (s Seen) uninstalls() bool {
	if !decided(s) || s.Release == nil || !s.Release.Deleting || !s.Release.Finalizer || s.Release.Helm == "" || !s.mayResume() {
		return false
	}
	return s.Release.Marked || !s.Release.Suspended
}

func (f *ReleaseFacts) uninstallBy() time.Time { return f.UninstallSince.Add(f.UninstallTime) }

func uninstall(s Seen) Decision {
	return do(ActionUninstall, backupsv1alpha1.ReasonUninstalling, "HelmRelease %q is being deleted: Flux may uninstall it", s.Release.Name)
}

func awaitUninstall(s Seen) Decision {
	return wait(recheckUninstall, backupsv1alpha1.ReasonUninstalling, "HelmRelease %q is being deleted: waiting until Flux has uninstalled Helm release %s", s.Release.Name, s.Release.Helm)
}

func uninstallLeft(s Seen) Decision {
	left := ""
	if parts := s.remaining(); parts != "" {
		left = fmt.Sprintf(" (among them %s)", parts)
	}
	return intend(ActionUninstallLeft, backupsv1alpha1.ReasonUninstallLeft, "Flux did not uninstall Helm release %s within %s: its objects%s and records are left, remove them with helm uninstall",
		s.Release.Helm, s.Release.UninstallTime, left)
}

// uninstall lets Flux go on with a release that is being deleted, and notes since when. Our finalizer stays until it is done.
func (r *Reconciler) uninstall(ctx context.Context, w *world) error {
	annotations := map[string]any{
		backupsv1alpha1.AnnotationSuspendedBy: nil, backupsv1alpha1.AnnotationUninstallSince: r.Now().UTC().Format(time.RFC3339),
	}
	patch := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	if w.seen.Release.Marked {
		patch["spec"] = map[string]any{"suspend": w.priorSuspension()}
	}
	return r.patchRelease(ctx, w, patch, "resume")
}
