package chart

import (
	"encoding/json"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names are a contract with running clusters. C51: no disruption budget beside the operator's; C55: nothing that resizes members.
func TestRenderedSet(t *testing.T) {
	objects, err := Objects(Request{})
	require.NoError(t, err)
	var got []string
	for _, object := range objects {
		got = append(got, object.GetKind()+"/"+object.GetName())
		namespace := "tenant-a"
		if object.GetKind() == "DataStore" {
			namespace = ""
		}
		require.Equal(t, namespace, object.GetNamespace(), object.GetName())
	}
	sort.Strings(got)
	require.Equal(t, []string{
		"Certificate/etcd-ca", "Certificate/etcd-client", "Certificate/etcd-peer", "Certificate/etcd-peer-ca", "Certificate/etcd-server",
		"DataStore/tenant-a", "EtcdCluster/etcd",
		"Issuer/etcd-issuer", "Issuer/etcd-peer-issuer", "Issuer/etcd-selfsigning-issuer",
		"Service/etcd-headless",
	}, got)
}

// C01: the Go types in which a size reaches a template: from a values file, --set, a HelmRelease, another program.
func TestC01GoTypesOfASize(t *testing.T) {
	const ten = "10737418240 8589934592"
	for _, c := range []struct {
		size any
		want string
	}{
		{float64(10737418240), ten}, {int64(10737418240), ten}, {10737418240, ten}, {uint64(10737418240), ten}, {json.Number("10737418240"), ten}, {"10737418240", ten},
		{5e9, "5000000000 4750000000"}, {int32(2000000000), "2000000000 1900000000"}, {1.5, "1.5 1"},
	} {
		got, err := probe(`{{ include "etcd.quantity.text" .Values.size }} {{ include "etcd.quotaBackendBytes" . }}`, map[string]any{"size": c.size, "quotaBackendBytes": nil})
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%T", c.size)
	}
}
