package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Typos and nonsense are refused with the field and what stands there.
func TestSchemaRefuses(t *testing.T) {
	for values, want := range map[string][]string{
		"replica: 3":                            {"replica"},
		"resources: {cpus: 1}":                  {"resources", "cpus"},
		"dataStore: {enable: true}":             {"dataStore", "enable"},
		"certificates: {leaves: {}}":            {"certificates", "leaves"},
		"version: v3.6.11":                      {"/version", "v3.6.11"},
		"version: 3.6":                          {"/version", "number"},
		"version: \"3.6\"":                      {"/version", "3.6"},
		"version: 3.6.0-rc.1":                   {"/version", "3.6.0-rc.1"},
		"version: 3.6.11.1":                     {"/version", "3.6.11.1"},
		"version: \"3.6.11\\n\"":                {"version"},
		"version: 03.6.11":                      {"/version", "03.6.11"},
		"version: null":                         {"version"},
		"replicas: \"3\"":                       {"/replicas", "string"},
		"replicas: null":                        {"replicas"},
		"replicas: 1.5":                         {"/replicas", "number"},
		"storageClass: Fast":                    {"/storageClass", "Fast"},
		"storageClass: [fast]":                  {"/storageClass", "array"},
		"affinity: none":                        {"/affinity", "string"},
		"clusterDomain: cluster.local.":         {"/clusterDomain", "cluster.local."},
		"clusterDomain: .local":                 {"/clusterDomain", ".local"},
		"dataStore: {name: Tenant_A}":           {"/dataStore/name", "Tenant_A"},
		"dataStore: {enabled: \"yes\"}":         {"/dataStore/enabled", "string"},
		"certificates: {ca: {duration: 10y}}":   {"/certificates/ca/duration", "10y"},
		"certificates: {privateKey: {size: 1}}": {"/certificates/privateKey/size", "1"},
		"size: -1Gi":                            {"/size", "-1Gi"},
		"size: 10gb":                            {"/size", "10gb"},
		"size: -5":                              {"/size", "-5"},
	} {
		_, err := Render(Request{Values: values})
		require.Error(t, err, values)
		for _, part := range want {
			require.ErrorContains(t, err, part, values)
		}
	}
}

// C51: even sizes, too many and negative ones; without the schema the message also says why.
func TestC51Replicas(t *testing.T) {
	for _, replicas := range []string{"2", "4", "6", "8", "9", "-1"} {
		_, err := Render(Request{Values: "replicas: " + replicas})
		require.ErrorContains(t, err, "/replicas", replicas)
		require.ErrorContains(t, err, "got "+replicas, replicas)
		_, err = Render(Request{Values: "replicas: " + replicas, SkipSchema: true})
		require.ErrorContains(t, err, `replicas: "`+replicas+`"; use 1, 3, 5 or 7`, replicas)
	}
	for _, replicas := range []string{"0", "1", "3", "5", "7", "3.0"} {
		_, err := Render(Request{Values: "replicas: " + replicas})
		require.NoError(t, err, replicas)
	}
}

// What the platform and the former chart leave in a tenant's values.
func TestSchemaIgnores(t *testing.T) {
	plain, err := Render(Request{})
	require.NoError(t, err)
	with, err := Render(Request{Values: `
backup: {enabled: true, schedule: "0 2 * * *", s3Region: us-east-1, nested: {deep: [1, 2]}}
_cluster: {scheduling: {globalAppTopologySpreadConstraints: x}, oidc-enabled: "false"}
_namespace: {etcd: tenant-root, host: example.org}
global: {anything: 1}
`})
	require.NoError(t, err)
	require.Equal(t, plain.Manifest, with.Manifest)
	for _, values := range []string{"backup: null", "_cluster: null", "_namespace: {}", "backup: true", "affinity: null", "resources: null", "storageClass: null", "quotaBackendBytes: null"} {
		_, err := Render(Request{Values: values})
		require.NoError(t, err, values)
	}
}

// C07: another release name is refused in one sentence.
func TestC07ReleaseName(t *testing.T) {
	for _, name := range []string{"etcd-b", "tenant"} {
		_, err := Render(Request{Release: name})
		require.ErrorContains(t, err, `must be installed as "etcd"`)
	}
}
