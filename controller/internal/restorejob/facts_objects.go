package restorejob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func clusterFacts(u *unstructured.Unstructured, job types.UID) *ClusterFacts {
	f := &ClusterFacts{
		UID: string(u.GetUID()), Deleting: u.GetDeletionTimestamp() != nil, Finalizers: u.GetFinalizers(), CreatedAt: u.GetCreationTimestamp().Time,
		Ours: u.GetAnnotations()[backupsv1alpha1.AnnotationRestoredBy] == string(job),
	}
	id, _, _ := unstructured.NestedString(u.Object, "status", "clusterID")
	f.ClusterID = strings.TrimLeft(id, "0") // as etcd's own answer is written; an operator may pad it
	f.StartsFrom, _, _ = unstructured.NestedString(u.Object, "spec", "bootstrap", "restore", "source", "s3", "key")
	f.Replicas, _ = number(u.Object, "spec", "replicas")
	f.ReadyMembers, _ = number(u.Object, "status", "readyMembers")
	if f.QuotaBytes, _ = number(u.Object, "spec", "options", "quotaBackendBytes"); f.QuotaBytes <= 0 {
		f.QuotaBytes = defaultQuota
	}
	f.Reconciled, f.BootstrapFailed = clusterConditions(u)
	return f
}

// defaultQuota is etcd's own, in bytes.
const defaultQuota = 2 << 30

func clusterConditions(u *unstructured.Unstructured) (reconciled bool, bootstrapFailed string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok {
			continue
		}
		observed, _ := number(condition, "observedGeneration")
		kind, status, reason := condition["type"], condition["status"], condition["reason"]
		if kind == etcdv1alpha2.ConditionProgressing && status == "False" && reason == etcdv1alpha2.ReasonReconciled && observed == u.GetGeneration() {
			reconciled = true
		}
		if reason == etcdv1alpha2.ReasonBootstrapFailed {
			if bootstrapFailed, _ = condition["message"].(string); bootstrapFailed == "" {
				bootstrapFailed = etcdv1alpha2.ReasonBootstrapFailed
			}
		}
	}
	return reconciled, bootstrapFailed
}

func typedRelease(u *unstructured.Unstructured) (*fluxv2.HelmRelease, error) {
	hr := &fluxv2.HelmRelease{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, hr); err != nil {
		return nil, fmt.Errorf("read HelmRelease %q: %w", u.GetName(), err)
	}
	return hr, nil
}

func releaseFacts(r *release, cluster *unstructured.Unstructured, job types.UID, now time.Time) *ReleaseFacts {
	f := &ReleaseFacts{
		Name: r.typed.Name, Deleting: !r.typed.DeletionTimestamp.IsZero(), Suspended: r.typed.Spec.Suspend,
		Finalizer: controllerutil.ContainsFinalizer(r.typed, backupsv1alpha1.RestoreFinalizer),
		Marked:    r.typed.Annotations[backupsv1alpha1.AnnotationSuspendedBy] == string(job),
		Unsafe:    unsafeRelease(r.typed, appliedByFlux(cluster)), Busy: busyRelease(r.typed, now),
		UninstallTime: max(defaultReleaseTimeout, releaseTimeout(r.typed)),
	}
	if history := r.typed.Status.History; len(history) > 0 {
		f.Helm = history[0].Namespace + "/" + history[0].Name
	}
	if since, err := time.Parse(time.RFC3339, r.typed.Annotations[backupsv1alpha1.AnnotationUninstallSince]); err == nil {
		f.UninstallSince = since
	}
	return f
}

func releaseTimeout(hr *fluxv2.HelmRelease) time.Duration {
	if hr.Spec.Timeout != nil {
		return hr.Spec.Timeout.Duration
	}
	return defaultReleaseTimeout
}

// defaultReleaseTimeout is Flux's for a Helm action, where spec.timeout is absent.
const defaultReleaseTimeout = 5 * time.Minute

// busyRelease tells that helm-controller is in the middle of an action, which a suspension does not stop. A condition that is older than any action may be
// was left behind, and does not count. That is all that can be known: helm-controller writes nothing on a suspended release, so its observedGeneration never
// reaches the generation of the suspension, and an action that began on the generation before it, and has not said so yet, looks idle. The fence holds what
// such an action would create.
func busyRelease(hr *fluxv2.HelmRelease, now time.Time) bool {
	timeout := releaseTimeout(hr)
	c := meta.FindStatusCondition(hr.Status.Conditions, fluxv2.ConditionReconciling)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == "Progressing" && now.Sub(c.LastTransitionTime.Time) < timeout+time.Minute
}

// appliedByFlux tells that helm-controller applied the cluster server-side. Where spec.upgrade.serverSideApply is not set, it goes on as it began.
func appliedByFlux(cluster *unstructured.Unstructured) bool {
	if cluster == nil {
		return false
	}
	return slices.ContainsFunc(cluster.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == fluxFieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
}

// fluxFieldManager is the name under which helm-controller applies.
const fluxFieldManager = "helm-controller"

// unsafeRelease tells why a release could delete or replace the restored cluster as soon as it is resumed. With server-side apply, force only settles
// conflicts between field managers; without it, objects are replaced.
func unsafeRelease(hr *fluxv2.HelmRelease, applied bool) string {
	if why := unsafeInstall(hr); why != "" {
		return why
	}
	up := hr.Spec.Upgrade
	if up == nil {
		return ""
	}
	serverSide := up.ServerSideApply == "enabled" || (up.ServerSideApply != "disabled" && applied)
	if up.Force && !serverSide {
		return "spec.upgrade.force replaces what it cannot patch, and spec.bootstrap of a restored cluster cannot be patched away: " +
			"remove it, or set spec.upgrade.serverSideApply to enabled"
	}
	if up.Strategy != nil && up.Strategy.Name == fluxv2.StrategyRetryOnFailure {
		return ""
	}
	if m := up.Remediation; m != nil && (m.Retries != 0 || (m.RemediateLastFailure != nil && *m.RemediateLastFailure)) {
		return "spec.upgrade.remediation rolls back or uninstalls after a failed upgrade, and would take the restored cluster along: " +
			"set spec.upgrade.strategy.name to RetryOnFailure, or remove the remediation"
	}
	return ""
}

// unsafeInstall tells why a release that was never deployed could take the restored cluster along: Flux still counts its next action as the first one, and
// uninstalls after that fails.
func unsafeInstall(hr *fluxv2.HelmRelease) string {
	in := hr.Spec.Install
	if in == nil || in.Remediation == nil || (in.Strategy != nil && in.Strategy.Name == fluxv2.StrategyRetryOnFailure) || deployedOnce(hr) {
		return ""
	}
	if last := in.Remediation.RemediateLastFailure; in.Remediation.Retries == 0 && (last == nil || !*last) {
		return ""
	}
	return "its first installation has not succeeded, and spec.install.remediation uninstalls after one that fails, and would take the restored cluster along: " +
		"set spec.install.strategy.name to RetryOnFailure, or remove the remediation"
}

func deployedOnce(hr *fluxv2.HelmRelease) bool {
	return slices.ContainsFunc(hr.Status.History, func(s fluxv2.Snapshot) bool { return s.Status == "deployed" || s.Status == "superseded" })
}
