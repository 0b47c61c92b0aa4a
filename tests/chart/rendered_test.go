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

// A whole number arrives in as many Go types.
func TestGoTypesOfAWholeNumber(t *testing.T) {
	const check = `{{ include "etcd.check.type" (dict "path" "replicas" "value" .Values.n "want" "whole number" "optional" false "example" "3") }}`
	for _, n := range []any{3, int64(3), uint8(3), 3.0, json.Number("3"), json.Number("3.0"), -1} {
		_, err := probe(check, map[string]any{"n": n})
		require.NoError(t, err, "%T", n)
	}
	for _, n := range []any{3.5, json.Number("3.5"), "3", true, nil, []any{3}} {
		_, err := probe(check, map[string]any{"n": n})
		require.ErrorContains(t, err, "is no whole number", "%T", n)
	}
}
