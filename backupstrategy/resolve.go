package backupstrategy

import (
	corev1 "k8s.io/api/core/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// Resolve returns the first row of the class whose application matches ref. Groups that are not given mean apps.cozystack.io. No match is terminal
// (NoMatchingStrategy): a class does not grow a row while a job waits for it.
func Resolve(class *backupsv1alpha1.BackupClass, ref corev1.TypedLocalObjectReference) (backupsv1alpha1.BackupClassStrategy, error) {
	for _, row := range class.Spec.Strategies {
		if Selects(row.Application, ref) {
			return row, nil
		}
	}
	return backupsv1alpha1.BackupClassStrategy{}, fault.Terminalf(backupsv1alpha1.ReasonNoMatchingStrategy,
		"BackupClass %q has no row for kind %q of group %q: add one, or name another class", class.Name, ref.Kind, groupOrDefault(ref.APIGroup))
}

// Selects tells whether the selector means the application.
func Selects(selector backupsv1alpha1.ApplicationSelector, ref corev1.TypedLocalObjectReference) bool {
	return selector.Kind == ref.Kind && groupOrDefault(selector.APIGroup) == groupOrDefault(ref.APIGroup)
}

// IsEtcdApplication tells whether ref is the application that this strategy backs up: Etcd of apps.cozystack.io.
func IsEtcdApplication(ref corev1.TypedLocalObjectReference) bool {
	return ref.Kind == backupsv1alpha1.EtcdApplicationKind && groupOrDefault(ref.APIGroup) == backupsv1alpha1.DefaultApplicationGroup
}

// InStrategyGroup tells whether a strategy reference is of the group that Cozystack's strategies live in. A job with another group belongs to another
// driver, which alone may write its status.
func InStrategyGroup(ref corev1.TypedLocalObjectReference) bool {
	return ref.APIGroup != nil && *ref.APIGroup == strategyv1alpha1.Group
}

// IsEtcdStrategy tells whether a strategy reference is of the kind that this package runs.
func IsEtcdStrategy(ref corev1.TypedLocalObjectReference) bool {
	return InStrategyGroup(ref) && ref.Kind == strategyv1alpha1.EtcdKind
}

// StrategyRef names a strategy of this package.
func StrategyRef(name string) corev1.TypedLocalObjectReference {
	group := strategyv1alpha1.Group
	return corev1.TypedLocalObjectReference{APIGroup: &group, Kind: strategyv1alpha1.EtcdKind, Name: name}
}

func groupOrDefault(group *string) string {
	if group == nil || *group == "" {
		return backupsv1alpha1.DefaultApplicationGroup
	}
	return *group
}
