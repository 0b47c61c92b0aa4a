package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/types"
)

// labelMethod on a release record tells how it was applied, as Helm 4 notes in the record itself.
const labelMethod = "cozy-etcd.io/apply-method"

func (r *run) storageNamespace() string {
	if ns := r.hr.Status.StorageNamespace; ns != "" {
		return ns
	}
	if ns := r.hr.Spec.StorageNamespace; ns != "" {
		return ns
	}
	return r.hr.Namespace
}

func (r *run) namespace() string {
	if ns := r.hr.Spec.TargetNamespace; ns != "" {
		return ns
	}
	return r.hr.Namespace
}

func (r *run) releaseName() string {
	switch {
	case r.hr.Spec.ReleaseName != "":
		return r.hr.Spec.ReleaseName
	case r.hr.Spec.TargetNamespace != "":
		return r.hr.Spec.TargetNamespace + "-" + r.hr.Name
	}
	return r.hr.Name
}

func (r *run) timeout() time.Duration {
	if r.hr.Spec.Timeout != nil {
		return r.hr.Spec.Timeout.Duration
	}
	return 5 * time.Minute
}

func (r *run) maxHistory() int {
	if r.hr.Spec.MaxHistory != nil {
		return *r.hr.Spec.MaxHistory
	}
	return 5
}

func (r *run) configuration(ctx context.Context, s step, serverSide, migrate bool) (*action.Configuration, error) {
	key := types.NamespacedName{Namespace: r.hr.Namespace, Name: r.hr.Name}
	return r.c.sdk.configuration(r.storageNamespace(), r.namespace(), clientOptions{
		serverSide: serverSide, migrate: migrate,
		log: func(string, ...any) {},
		strike: func(at Stage) error {
			return r.c.faults.strike(ctx, Point{NamespacedName: key, Action: string(s), Stage: at})
		},
	})
}

// take runs one step and notes its end in the status. A Helm failure is an outcome, not an error of the pass.
func (r *run) take(ctx context.Context, s step) error {
	before := len(r.hr.Status.History)
	var err error
	switch s {
	case stepInstall:
		r.hr.Status.LastAttemptedReleaseAction = string(s)
		err = r.install(ctx)
	case stepUpgrade:
		r.hr.Status.LastAttemptedReleaseAction = string(s)
		err = r.upgrade(ctx)
	case stepRollback:
		err = r.rollback(ctx)
	case stepUninstall:
		err = r.uninstall(ctx)
	case stepUnlock:
		return r.unlock(ctx)
	case stepCorrect:
		return r.correct(ctx)
	}
	if observed := r.observe(ctx); observed != nil {
		return observed
	}
	if err != nil && len(r.hr.Status.History) == 0 && before == 0 && s == stepInstall {
		r.count(s)
		released(r.hr, s, err, err.Error())
		return err // rendering failed before there was a record: try again with back-off, as a state it would look absent for ever
	}
	r.note(s, err)
	return nil
}

func (r *run) note(s step, err error) {
	message := fmt.Sprintf("Helm %s succeeded for release %s/%s", s, r.namespace(), r.releaseName())
	if err != nil {
		message = fmt.Sprintf("Helm %s failed for release %s/%s: %v", s, r.namespace(), r.releaseName(), err)
	}
	r.c.opts.Log("HelmRelease %s/%s: %s", r.hr.Namespace, r.hr.Name, message)
	if s.remediates() {
		remediated(r.hr, s, err, message)
		return
	}
	if err != nil {
		r.count(s)
	} else {
		r.hr.Status.Failures, r.hr.Status.InstallFailures, r.hr.Status.UpgradeFailures = 0, 0, 0
	}
	released(r.hr, s, err, message)
}

func (r *run) count(s step) {
	r.hr.Status.Failures++
	if s == stepInstall {
		r.hr.Status.InstallFailures++
	} else {
		r.hr.Status.UpgradeFailures++
	}
}

func (r *run) install(ctx context.Context) error {
	serverSide := r.c.opts.Mode == ServerSide
	spec := r.hr.Spec.Install
	if serverSide && spec != nil && spec.ServerSideApply != nil {
		serverSide = *spec.ServerSideApply
	}
	cfg, err := r.configuration(ctx, stepInstall, serverSide, false)
	if err != nil {
		return err
	}
	a := action.NewInstall(cfg)
	a.ReleaseName, a.Namespace, a.Timeout = r.releaseName(), r.namespace(), r.timeout()
	a.Wait = spec == nil || !spec.DisableWait
	a.WaitForJobs, a.TakeOwnership, a.Replace = a.Wait, true, true
	a.Labels, a.PostRenderer = methodLabel(serverSide), originLabels{r.hr.Name, r.hr.Namespace}
	_, err = a.RunWithContext(ctx, r.chart, maps.Clone(r.values))
	return err
}

func (r *run) upgrade(ctx context.Context) error {
	serverSide, before, err := r.upgradeMethod(ctx)
	if err != nil {
		return err
	}
	cfg, err := r.configuration(ctx, stepUpgrade, serverSide, serverSide && !before)
	if err != nil {
		return err
	}
	a := action.NewUpgrade(cfg)
	spec := r.hr.Spec.Upgrade
	a.Namespace, a.Timeout, a.ResetValues, a.MaxHistory = r.namespace(), r.timeout(), true, r.maxHistory()
	a.Wait = spec == nil || !spec.DisableWait
	a.Force = spec != nil && spec.Force && !serverSide // server-side apply has no use for it
	a.WaitForJobs, a.TakeOwnership = a.Wait, true
	a.Labels, a.PostRenderer = methodLabel(serverSide), originLabels{r.hr.Name, r.hr.Namespace}
	_, err = a.RunWithContext(ctx, r.releaseName(), r.chart, maps.Clone(r.values))
	return err
}

// upgradeMethod resolves "auto", the default: the method of the last release.
func (r *run) upgradeMethod(ctx context.Context) (serverSide, before bool, err error) {
	cfg, err := r.configuration(ctx, stepUpgrade, false, false)
	if err != nil {
		return false, false, err
	}
	last, err := cfg.Releases.Last(r.releaseName())
	if err != nil {
		return false, false, fmt.Errorf("read the release record: %w", err)
	}
	before = last.Labels[labelMethod] == "ssa"
	if r.c.opts.Mode == ClientSide {
		return false, before, nil
	}
	if r.hr.Spec.Upgrade != nil {
		switch r.hr.Spec.Upgrade.ServerSideApply {
		case "enabled":
			return true, before, nil
		case "disabled":
			return false, before, nil
		}
	}
	return before, before, nil
}

func methodLabel(serverSide bool) map[string]string {
	if serverSide {
		return map[string]string{labelMethod: "ssa"}
	}
	return map[string]string{labelMethod: "csa"}
}

// rollback goes back to the newest revision that was deployed before the failed one.
func (r *run) rollback(ctx context.Context) error {
	target := previous(r.hr)
	if target == nil {
		return errors.New("no earlier release to roll back to")
	}
	serverSide, before, err := r.upgradeMethod(ctx)
	if err != nil {
		return err
	}
	cfg, err := r.configuration(ctx, stepRollback, serverSide, serverSide && !before)
	if err != nil {
		return err
	}
	a := action.NewRollback(cfg)
	a.Version, a.Timeout, a.Wait, a.WaitForJobs, a.MaxHistory = target.Version, r.timeout(), true, true, r.maxHistory()
	return a.Run(r.releaseName())
}

func (r *run) uninstall(ctx context.Context) error {
	cfg, err := r.configuration(ctx, stepUninstall, false, false)
	if err != nil {
		return err
	}
	a := action.NewUninstall(cfg)
	a.Timeout, a.Wait = r.timeout(), true
	if spec := r.hr.Spec.Uninstall; spec != nil {
		a.Wait, a.KeepHistory, a.DeletionPropagation = !spec.DisableWait, spec.KeepHistory, spec.DeletionPropagation
	}
	_, err = a.Run(r.releaseName())
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	return err
}

// unlock marks an interrupted action failed, so that the next one may begin.
func (r *run) unlock(ctx context.Context) error {
	cfg, err := r.configuration(ctx, stepUnlock, false, false)
	if err != nil {
		return err
	}
	last, err := cfg.Releases.Last(r.releaseName())
	if err != nil {
		return err
	}
	last.SetStatus(release.StatusFailed, "Release unlocked from stale pending state")
	if err := cfg.Releases.Update(last); err != nil {
		return err
	}
	return r.observe(ctx)
}
