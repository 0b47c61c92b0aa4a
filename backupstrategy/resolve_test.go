package backupstrategy

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

func etcdRef() corev1.TypedLocalObjectReference {
	return corev1.TypedLocalObjectReference{Kind: "Etcd", Name: "etcd"}
}

func row(group *string, kind, strategy string, parameters map[string]string) backupsv1alpha1.BackupClassStrategy {
	return backupsv1alpha1.BackupClassStrategy{
		StrategyRef: StrategyRef(strategy),
		Application: backupsv1alpha1.ApplicationSelector{APIGroup: group, Kind: kind},
		Parameters:  parameters,
	}
}

func class(rows ...backupsv1alpha1.BackupClassStrategy) backupsv1alpha1.BackupClass {
	return backupsv1alpha1.BackupClass{ObjectMeta: metav1.ObjectMeta{Name: "daily"}, Spec: backupsv1alpha1.BackupClassSpec{Strategies: rows}}
}

func ptr[T any](v T) *T { return &v }

func TestResolveTakesTheFirstMatch(t *testing.T) {
	c := class(row(nil, "Postgres", "p", nil), row(ptr("apps.cozystack.io"), "Etcd", "first", nil), row(nil, "Etcd", "second", nil))
	got, err := Resolve(&c, etcdRef())
	require.NoError(t, err)
	require.Equal(t, "first", got.StrategyRef.Name)
}

func TestResolveDefaultsTheGroupOnBothSides(t *testing.T) {
	c := class(row(nil, "Etcd", "s", nil))
	for _, group := range []*string{nil, ptr(""), ptr("apps.cozystack.io")} {
		ref := etcdRef()
		ref.APIGroup = group
		_, err := Resolve(&c, ref)
		require.NoError(t, err)
	}
}

func TestC17cNoMatchIsTerminal(t *testing.T) {
	c := class(row(ptr("other.example"), "Etcd", "s", nil), row(nil, "Postgres", "s", nil))
	_, err := Resolve(&c, etcdRef())
	require.Equal(t, fault.Terminal, fault.ClassOf(err))
	require.Equal(t, backupsv1alpha1.ReasonNoMatchingStrategy, fault.ReasonOf(err, ""))
	require.ErrorContains(t, err, `"daily"`)
}

func TestStrategyGroupAndKind(t *testing.T) {
	ref := StrategyRef("s")
	require.True(t, IsEtcdStrategy(ref))
	ref.Kind = "Postgres"
	require.True(t, InStrategyGroup(ref))
	require.False(t, IsEtcdStrategy(ref))
	require.False(t, InStrategyGroup(corev1.TypedLocalObjectReference{Kind: "Etcd"}))
}
