package helmcontroller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func TestNextStep(t *testing.T) {
	yes, no := true, false
	up := func(r fluxv2.UpgradeRemediation, failures int64, versions ...string) *fluxv2.HelmRelease {
		hr := &fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{Upgrade: &fluxv2.Upgrade{Remediation: &r}}}
		hr.Status.LastAttemptedReleaseAction, hr.Status.UpgradeFailures = "upgrade", failures
		for _, s := range versions {
			hr.Status.History = append(hr.Status.History, fluxv2.Snapshot{Status: s})
		}
		return hr
	}
	in := func(r fluxv2.Remediation, failures int64) *fluxv2.HelmRelease {
		hr := &fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{Install: &fluxv2.Install{Remediation: &r}}}
		hr.Status.LastAttemptedReleaseAction, hr.Status.InstallFailures = "install", failures
		return hr
	}
	retry := up(fluxv2.UpgradeRemediation{Strategy: "uninstall", Retries: -1}, 7)
	retry.Spec.Upgrade.Strategy = &fluxv2.ActionStrategy{Name: fluxv2.StrategyRetryOnFailure}
	corrects := &fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{DriftDetection: &fluxv2.DriftDetection{Mode: "enabled"}}}
	warns := &fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{DriftDetection: &fluxv2.DriftDetection{Mode: "warn"}}}
	none := &fluxv2.HelmRelease{}
	for name, c := range map[string]struct {
		hr        *fluxv2.HelmRelease
		state     state
		forced    bool
		want      step
		exhausted bool
	}{
		"absent installs": {none, absent, false, stepInstall, false},
		"absent after a failure without retries stops":      {in(fluxv2.Remediation{}, 1), absent, false, stepNone, true},
		"absent after a failure, forced, installs":          {in(fluxv2.Remediation{}, 1), absent, true, stepInstall, false},
		"absent with a retry left installs":                 {in(fluxv2.Remediation{Retries: 1}, 1), absent, false, stepInstall, false},
		"absent with endless retries installs":              {in(fluxv2.Remediation{Retries: -1}, 99), absent, false, stepInstall, false},
		"out of sync upgrades":                              {none, outOfSync, false, stepUpgrade, false},
		"out of sync after a rollback without retry stops":  {up(fluxv2.UpgradeRemediation{}, 1), outOfSync, false, stepNone, true},
		"foreign release is taken over":                     {none, unmanaged, false, stepUpgrade, false},
		"interrupted is unlocked":                           {none, locked, false, stepUnlock, false},
		"in sync rests":                                     {none, inSync, false, stepNone, false},
		"in sync and forced upgrades":                       {none, inSync, true, stepUpgrade, false},
		"drift is put right":                                {corrects, drifted, false, stepCorrect, false},
		"drift is only reported":                            {warns, drifted, false, stepNone, false},
		"failed, nothing tried by us, upgrades":             {none, failed, false, stepUpgrade, false},
		"failed in an older generation upgrades":            {up(fluxv2.UpgradeRemediation{}, 0), failed, false, stepUpgrade, false},
		"failed without retries stops":                      {up(fluxv2.UpgradeRemediation{}, 1, "failed", "superseded"), failed, false, stepNone, true},
		"failed and forced upgrades":                        {up(fluxv2.UpgradeRemediation{}, 1), failed, true, stepUpgrade, false},
		"failed with retries rolls back":                    {up(fluxv2.UpgradeRemediation{Retries: 1}, 1, "failed", "superseded"), failed, false, stepRollback, false},
		"last failure with retries is remediated too":       {up(fluxv2.UpgradeRemediation{Retries: 1}, 2, "failed", "superseded"), failed, false, stepRollback, false},
		"last failure is left alone on request":             {up(fluxv2.UpgradeRemediation{Retries: 1, RemediateLastFailure: &no}, 2, "failed", "superseded"), failed, false, stepNone, true},
		"only failure is remediated on request":             {up(fluxv2.UpgradeRemediation{RemediateLastFailure: &yes}, 1, "failed", "superseded"), failed, false, stepRollback, false},
		"nothing to roll back to stops":                     {up(fluxv2.UpgradeRemediation{Retries: 1}, 1, "failed"), failed, false, stepNone, true},
		"failed upgrade uninstalls":                         {up(fluxv2.UpgradeRemediation{Retries: 1, Strategy: "uninstall"}, 1), failed, false, stepUninstall, false},
		"failed install uninstalls":                         {in(fluxv2.Remediation{Retries: 1}, 1), failed, false, stepUninstall, false},
		"failed install without retries stays as it is":     {in(fluxv2.Remediation{}, 1), failed, false, stepNone, true},
		"RetryOnFailure makes remediation retries harmless": {retry, failed, false, stepUpgrade, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nextStep(c.hr, c.state, c.forced)
			if c.exhausted {
				require.ErrorIs(t, err, errExhausted)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestRetryInterval(t *testing.T) {
	hr := &fluxv2.HelmRelease{}
	require.Equal(t, 5*time.Minute, retryInterval(hr))
	hr.Spec.Install = &fluxv2.Install{Strategy: &fluxv2.ActionStrategy{Name: fluxv2.StrategyRetryOnFailure, RetryInterval: &metav1.Duration{Duration: time.Second}}}
	hr.Status.LastAttemptedReleaseAction = "install"
	require.Equal(t, time.Second, retryInterval(hr))
}
