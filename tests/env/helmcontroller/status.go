package helmcontroller

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func set(hr *fluxv2.HelmRelease, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&hr.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: bounded(message), ObservedGeneration: hr.Generation,
	})
}

// bounded keeps a message below the API server's limit for conditions.
func bounded(s string) string {
	const limit = 4096
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

func setReady(hr *fluxv2.HelmRelease, status metav1.ConditionStatus, reason, message string) {
	set(hr, fluxv2.ConditionReady, status, reason, message)
}

func setReconciling(hr *fluxv2.HelmRelease, reason, message string) {
	set(hr, fluxv2.ConditionReconciling, metav1.ConditionTrue, reason, message)
	meta.RemoveStatusCondition(&hr.Status.Conditions, fluxv2.ConditionStalled)
}

func setStalled(hr *fluxv2.HelmRelease, reason, message string) {
	set(hr, fluxv2.ConditionStalled, metav1.ConditionTrue, reason, message)
	meta.RemoveStatusCondition(&hr.Status.Conditions, fluxv2.ConditionReconciling)
}

// settled drops Reconciling and derives Ready from the last release action and its remediation.
func settled(hr *fluxv2.HelmRelease) {
	meta.RemoveStatusCondition(&hr.Status.Conditions, fluxv2.ConditionReconciling)
	meta.RemoveStatusCondition(&hr.Status.Conditions, fluxv2.ConditionStalled)
	summarise(hr)
}

func summarise(hr *fluxv2.HelmRelease) {
	source := meta.FindStatusCondition(hr.Status.Conditions, fluxv2.ConditionRemediated)
	status := metav1.ConditionFalse // remediated is never ready
	if source == nil {
		if source = meta.FindStatusCondition(hr.Status.Conditions, fluxv2.ConditionReleased); source == nil {
			return
		}
		status = source.Status
	}
	setReady(hr, status, source.Reason, source.Message)
}

// released notes the end of an install or upgrade.
func released(hr *fluxv2.HelmRelease, s step, err error, message string) {
	meta.RemoveStatusCondition(&hr.Status.Conditions, fluxv2.ConditionRemediated)
	name := map[step]string{stepInstall: "Install", stepUpgrade: "Upgrade"}[s]
	if err == nil {
		set(hr, fluxv2.ConditionReleased, metav1.ConditionTrue, name+"Succeeded", message)
	} else {
		set(hr, fluxv2.ConditionReleased, metav1.ConditionFalse, name+"Failed", message)
	}
	summarise(hr)
}

// remediated notes the end of a rollback or of an uninstall after a failure.
func remediated(hr *fluxv2.HelmRelease, s step, err error, message string) {
	name := map[step]string{stepRollback: "Rollback", stepUninstall: "Uninstall"}[s]
	if err == nil {
		set(hr, fluxv2.ConditionRemediated, metav1.ConditionTrue, name+"Succeeded", message)
	} else {
		set(hr, fluxv2.ConditionRemediated, metav1.ConditionFalse, name+"Failed", message)
	}
	summarise(hr)
}

func ready(hr *fluxv2.HelmRelease) bool {
	return meta.IsStatusConditionTrue(hr.Status.Conditions, fluxv2.ConditionReady)
}

func reconciling(hr *fluxv2.HelmRelease) bool {
	return meta.IsStatusConditionTrue(hr.Status.Conditions, fluxv2.ConditionReconciling)
}

func readyMessage(hr *fluxv2.HelmRelease) string {
	if c := meta.FindStatusCondition(hr.Status.Conditions, fluxv2.ConditionReady); c != nil {
		return c.Reason + ": " + c.Message
	}
	return "no Ready condition"
}
