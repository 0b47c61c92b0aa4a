package helmcontroller

import (
	"errors"
	"fmt"
	"time"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// state compares Helm's records with the HelmRelease, in helm-controller's own terms.
type state string

const (
	absent    state = "Absent"
	unmanaged state = "Unmanaged" // somebody else changed the release since our last action
	outOfSync state = "OutOfSync" // chart or values differ
	drifted   state = "Drifted"   // live objects differ, and drift detection is on
	locked    state = "Locked"    // an action was interrupted
	inSync    state = "InSync"
	failed    state = "Failed"
)

// step is the next Helm action.
type step string

const (
	stepNone      step = ""
	stepInstall   step = "install"
	stepUpgrade   step = "upgrade"
	stepUnlock    step = "unlock"
	stepCorrect   step = "correct-drift"
	stepRollback  step = "rollback"
	stepUninstall step = "uninstall"
)

func (s step) remediates() bool { return s == stepRollback || s == stepUninstall }

// kind groups the steps of which one pass takes at most one each.
func (s step) kind() string {
	switch {
	case s.remediates():
		return "remediation"
	case s == stepInstall || s == stepUpgrade:
		return "release"
	}
	return string(s)
}

// errExhausted stalls a release until its spec, chart or values change.
var errExhausted = errors.New("retries exceeded")

// nextStep says what helm-controller does in a state.
func nextStep(hr *fluxv2.HelmRelease, s state, forced bool) (step, error) {
	switch s {
	case absent:
		if exhausted(installRemediation(hr), hr.Status.InstallFailures) && !forced {
			return stepNone, fmt.Errorf("install: %w", errExhausted)
		}
		return stepInstall, nil
	case outOfSync:
		if exhausted(upgradeRemediation(hr), hr.Status.UpgradeFailures) && !forced {
			return stepNone, fmt.Errorf("upgrade: %w", errExhausted)
		}
		return stepUpgrade, nil
	case unmanaged:
		return stepUpgrade, nil
	case drifted:
		if hr.Spec.DriftDetection.Mode == "enabled" {
			return stepCorrect, nil
		}
		return stepNone, nil
	case locked:
		return stepUnlock, nil
	case inSync:
		if forced {
			return stepUpgrade, nil
		}
		return stepNone, nil
	case failed:
		return afterFailure(hr, forced)
	}
	return stepNone, fmt.Errorf("no action is known for state %q", s)
}

func afterFailure(hr *fluxv2.HelmRelease, forced bool) (step, error) {
	r, failures := activeRemediation(hr)
	if r == nil || failures == 0 || forced {
		return stepUpgrade, nil
	}
	if exhausted(r, failures) && !r.last {
		return stepNone, fmt.Errorf("%s: %w", hr.Status.LastAttemptedReleaseAction, errExhausted)
	}
	if !r.uninstall && previous(hr) == nil {
		return stepNone, fmt.Errorf("no earlier release to roll back to: %w", errExhausted)
	}
	if r.uninstall {
		return stepUninstall, nil
	}
	return stepRollback, nil
}

// remediation is what the strategy RemediateOnFailure comes to; nil stands for RetryOnFailure.
type remediation struct {
	retries   int
	last      bool // also after the last failure
	uninstall bool // instead of a rollback
}

func exhausted(r *remediation, failures int64) bool {
	return r != nil && r.retries >= 0 && failures > int64(r.retries)
}

func installRemediation(hr *fluxv2.HelmRelease) *remediation {
	spec := hr.Spec.Install
	if spec == nil {
		return &remediation{uninstall: true}
	}
	if retries(spec.Strategy) {
		return nil
	}
	r := &remediation{uninstall: true}
	if m := spec.Remediation; m != nil {
		r.retries = m.Retries
		r.last = m.RemediateLastFailure != nil && *m.RemediateLastFailure
	}
	return r
}

func upgradeRemediation(hr *fluxv2.HelmRelease) *remediation {
	spec := hr.Spec.Upgrade
	if spec == nil {
		return &remediation{}
	}
	if retries(spec.Strategy) {
		return nil
	}
	r := &remediation{}
	if m := spec.Remediation; m != nil {
		r.retries, r.uninstall, r.last = m.Retries, m.Strategy == "uninstall", m.Retries > 0
		if m.RemediateLastFailure != nil {
			r.last = *m.RemediateLastFailure
		}
	}
	return r
}

func retries(s *fluxv2.ActionStrategy) bool {
	return s != nil && s.Name == fluxv2.StrategyRetryOnFailure
}

// activeRemediation belongs to the last attempted action.
func activeRemediation(hr *fluxv2.HelmRelease) (*remediation, int64) {
	switch step(hr.Status.LastAttemptedReleaseAction) {
	case stepInstall:
		return installRemediation(hr), hr.Status.InstallFailures
	case stepUpgrade:
		return upgradeRemediation(hr), hr.Status.UpgradeFailures
	}
	return nil, 0
}

// retryInterval is when a failed action of the strategy RetryOnFailure is tried again.
func retryInterval(hr *fluxv2.HelmRelease) time.Duration {
	var s *fluxv2.ActionStrategy
	if step(hr.Status.LastAttemptedReleaseAction) == stepInstall && hr.Spec.Install != nil {
		s = hr.Spec.Install.Strategy
	} else if hr.Spec.Upgrade != nil {
		s = hr.Spec.Upgrade.Strategy
	}
	if s == nil || s.RetryInterval == nil {
		return 5 * time.Minute
	}
	return s.RetryInterval.Duration
}

// previous is the newest revision below the current one that was deployed once.
func previous(hr *fluxv2.HelmRelease) *fluxv2.Snapshot {
	for i := range hr.Status.History {
		if s := &hr.Status.History[i]; i > 0 && (s.Status == "superseded" || s.Status == "deployed") {
			return s
		}
	}
	return nil
}
