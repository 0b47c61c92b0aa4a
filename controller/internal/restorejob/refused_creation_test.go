package restorejob

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// Where a creation finds neither namespace nor kind, there is nothing to read anew: it is tried again with back-off. A patch finds its object gone, and looks.
func TestNotFoundIsNoConflictForACreation(t *testing.T) {
	clusters := schema.GroupResource{Group: "etcd-operator.cozystack.io", Resource: "etcdclusters"}
	gone := apierrors.NewNotFound(clusters, "etcd")
	require.Equal(t, fault.Transient, fault.ClassOf(refusedCreation(gone, "recreate")))
	require.True(t, apierrors.IsNotFound(refusedCreation(gone, "recreate")))
	require.Equal(t, fault.Conflict, fault.ClassOf(refused(gone, backupsv1alpha1.ReasonInternalError, "patch")))
	require.Equal(t, fault.Conflict, fault.ClassOf(refusedCreation(apierrors.NewAlreadyExists(clusters, "etcd"), "recreate")))
	require.Equal(t, fault.Terminal, fault.ClassOf(refusedCreation(apierrors.NewBadRequest("no"), "recreate")))
	require.NoError(t, refusedCreation(nil, "recreate"))
}
