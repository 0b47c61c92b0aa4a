package restorejob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func TestOptions(t *testing.T) {
	for in, want := range map[string]time.Duration{
		``: DefaultTimeout, `{}`: DefaultTimeout, `{"restoreTimeoutSeconds":10}`: 10 * time.Second, `{"restoreTimeoutSeconds":604800}`: 7 * 24 * time.Hour,
	} {
		o, problem := parseOptions(&runtime.RawExtension{Raw: []byte(in)})
		require.Nil(t, problem, in)
		require.Equal(t, want, o.Timeout, in)
	}
	for in, say := range map[string]string{
		`{"restoreTimeoutSecond":60}`:                        "spec.options.restoreTimeoutSecond is unknown",
		`{"restoreTimeoutSeconds":9}`:                        "is 9: give a whole number",
		`{"restoreTimeoutSeconds":604801}`:                   "is 604801",
		`{"restoreTimeoutSeconds":"60"}`:                     `is "60"`,
		`{"restoreTimeoutSeconds":1.5}`:                      "is 1.5",
		`{"restoreTimeoutSeconds":99999999999999999999}`:     "is 9999",
		`{"restoreTimeoutSeconds":60,"safetysnapshot":true}`: "safetysnapshot is unknown",
		`{"dryRun":null}`:                                    "spec.options.dryRun is null: give true or false",
		`{"dryRun":"true"}`:                                  `is "true": give true or false`,
		`{"safetySnapshot":null}`:                            "is null: give true or false",
		`[]`:                                                 "no object", `7`: "no object",
	} {
		_, problem := parseOptions(&runtime.RawExtension{Raw: []byte(in)})
		require.NotNil(t, problem, in)
		require.Equal(t, backupsv1alpha1.ReasonOptionsInvalid, problem.Reason)
		require.Contains(t, problem.Message, say)
	}
	allowed, problem := parseOptions(&runtime.RawExtension{Raw: []byte(`{"allowOtherMinor":true}`)})
	require.Nil(t, problem)
	require.True(t, allowed.AllowOtherMinor)
	_, problem = parseOptions(&runtime.RawExtension{Raw: []byte(`{"allowOtherMinor":"yes"}`)})
	require.Contains(t, problem.Message, "give true or false")
	o, problem := parseOptions(nil)
	require.Nil(t, problem)
	require.Equal(t, DefaultTimeout, o.Timeout)
}

func TestBusyRelease(t *testing.T) {
	busy := func(reason string, age time.Duration, timeout *metav1.Duration) bool {
		hr := &fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{Timeout: timeout}}
		hr.Status.Conditions = []metav1.Condition{{Type: fluxv2.ConditionReconciling, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-age))}}
		return busyRelease(hr, now)
	}
	require.False(t, busyRelease(&fluxv2.HelmRelease{}, now))
	require.True(t, busy("Progressing", 5*time.Minute, nil))
	require.False(t, busy("Progressing", 7*time.Minute, nil), "left behind by a controller that died")
	require.True(t, busy("Progressing", 7*time.Minute, &metav1.Duration{Duration: 10 * time.Minute}))
	require.False(t, busy("ProgressingWithRetry", time.Second, nil), "it waits for its next try")
}

func TestC57UnsafeRelease(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		up      *fluxv2.Upgrade
		applied bool
		unsafe  string
	}{
		{"nothing said", nil, false, ""},
		{"force", &fluxv2.Upgrade{Force: true}, false, "spec.upgrade.force"},
		{"force, apply method unknown", &fluxv2.Upgrade{Force: true, ServerSideApply: "auto"}, false, "spec.upgrade.force"},
		{"force, applied server-side so far", &fluxv2.Upgrade{Force: true, ServerSideApply: "auto"}, true, ""},
		{"force, no longer server-side", &fluxv2.Upgrade{Force: true, ServerSideApply: "disabled"}, true, "spec.upgrade.force"},
		{"force with server-side apply", &fluxv2.Upgrade{Force: true, ServerSideApply: "enabled"}, false, ""},
		{"retries", &fluxv2.Upgrade{Remediation: &fluxv2.UpgradeRemediation{Retries: 3}}, false, "spec.upgrade.remediation"},
		{"retries without end", &fluxv2.Upgrade{Remediation: &fluxv2.UpgradeRemediation{Retries: -1}}, false, "spec.upgrade.remediation"},
		{"the last failure", &fluxv2.Upgrade{Remediation: &fluxv2.UpgradeRemediation{RemediateLastFailure: &yes}}, false, "spec.upgrade.remediation"},
		{"not even the last failure", &fluxv2.Upgrade{Remediation: &fluxv2.UpgradeRemediation{RemediateLastFailure: &no}}, false, ""},
		{"as Cozystack makes them", &fluxv2.Upgrade{Strategy: &fluxv2.ActionStrategy{Name: fluxv2.StrategyRetryOnFailure}, Remediation: &fluxv2.UpgradeRemediation{Retries: -1}}, false, ""},
	} {
		got := unsafeRelease(&fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{Upgrade: c.up}}, c.applied)
		if c.unsafe == "" {
			require.Empty(t, got, c.name)
		} else {
			require.Contains(t, got, c.unsafe, c.name)
		}
	}
}

func TestC57UnsafeInstall(t *testing.T) {
	yes := true
	retries := &fluxv2.Remediation{Retries: 3}
	for _, c := range []struct {
		name    string
		in      *fluxv2.Install
		history []string
		unsafe  bool
	}{
		{"nothing said", nil, nil, false},
		{"nothing about failures", &fluxv2.Install{}, nil, false},
		{"no retries", &fluxv2.Install{Remediation: &fluxv2.Remediation{}}, []string{"failed"}, false},
		{"retries, never installed", &fluxv2.Install{Remediation: retries}, nil, true},
		{"retries, the installation failed", &fluxv2.Install{Remediation: retries}, []string{"failed"}, true},
		{"the last failure", &fluxv2.Install{Remediation: &fluxv2.Remediation{RemediateLastFailure: &yes}}, []string{"failed"}, true},
		{"retries, installed", &fluxv2.Install{Remediation: retries}, []string{"deployed"}, false},
		{"retries, an upgrade failed", &fluxv2.Install{Remediation: retries}, []string{"failed", "superseded"}, false},
		{"as Cozystack makes them", &fluxv2.Install{Strategy: &fluxv2.ActionStrategy{Name: fluxv2.StrategyRetryOnFailure}, Remediation: &fluxv2.Remediation{Retries: -1}}, nil, false},
	} {
		hr := &fluxv2.HelmRelease{Spec: fluxv2.HelmReleaseSpec{Install: c.in}}
		for _, status := range c.history {
			hr.Status.History = append(hr.Status.History, fluxv2.Snapshot{Status: status})
		}
		require.Equal(t, c.unsafe, unsafeRelease(hr, false) != "", c.name)
	}
}
