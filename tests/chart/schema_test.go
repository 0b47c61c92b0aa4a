package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Typos and nonsense are refused with the field and what stands there.
func TestSchemaRefuses(t *testing.T) {
	for values, want := range map[string][]string{
		"replica: 3":                                         {"replica"},
		"resources: {cpus: 1}":                               {"resources", "cpus"},
		"dataStore: {enable: true}":                          {"dataStore", "enable"},
		"certificates: {leaves: {}}":                         {"certificates", "leaves"},
		"version: v3.6.11":                                   {"/version", "v3.6.11"},
		"version: 3.6":                                       {"version: 3.6 is no string"},
		"version: \"3.6\"":                                   {"/version", "3.6"},
		"version: 3.6.0-rc.1":                                {"/version", "3.6.0-rc.1"},
		"version: 3.6.11.1":                                  {"/version", "3.6.11.1"},
		"version: \"3.6.11\\n\"":                             {"version"},
		"version: 03.6.11":                                   {"/version", "03.6.11"},
		"version: 3.4.27":                                    {"version: 3.4.27 is neither 3.5 nor a later etcd 3"},
		"version: 4.0.0":                                     {"version: 4.0.0 is neither"},
		"version: 3.99999999999999999999.0":                  {"version: 3.99999999999999999999.0 is neither"},
		"version: null":                                      {"version"},
		"replicas: \"3\"":                                    {`replicas: "3" is no whole number; write for example replicas: 3`},
		"replicas: null":                                     {"replicas"},
		"replicas: 1.5":                                      {"/replicas", "1.5"},
		"storageClass: Fast":                                 {"/storageClass", "Fast"},
		"storageClass: [fast]":                               {`storageClass: ["fast"] is no string; write for example storageClass: "fast"`},
		"storageClass: {name: fast}":                         {`storageClass: {"name":"fast"} is no string`},
		"replicas: [3]":                                      {"replicas: [3] is no whole number"},
		"resources: [1]":                                     {"resources: [1] is no map"},
		"resources: {cpu: {limit: 1}}":                       {`resources.cpu: {"limit":1} is no quantity; write for example cpu: 1000m`},
		"dataStore: []":                                      {"dataStore: [] is no map"},
		"affinity: none":                                     {`affinity: "none" is no map`},
		"affinity: {podAntiAfinity: {}}":                     {"/affinity", "podAntiAfinity"},
		"affinity: {podAffinity: soft}":                      {"/affinity/podAffinity", "string"},
		"affinity: {nodeAffinity: {required: 1}}":            {"/affinity/nodeAffinity", "required"},
		"storageClass: a..b":                                 {"/storageClass", "a..b"},
		"clusterDomain: cluster.local.":                      {"/clusterDomain", "cluster.local."},
		"clusterDomain: .local":                              {"/clusterDomain", ".local"},
		"dataStore: {name: Tenant_A}":                        {"/dataStore/name", "Tenant_A"},
		"dataStore: {name: " + strings.Repeat("a", 64) + "}": {"/dataStore/name", "got 64, want 63"},
		"dataStore: {enabled: \"yes\"}":                      {`dataStore.enabled: "yes" is no boolean`},
		"certificates: {ca: {duration: 10y}}":                {"/certificates/ca/duration", "10y"},
		"certificates: {privateKey: {size: 1}}":              {"/certificates/privateKey/size", "1"},
		"size: -1Gi":                                         {"/size", "-1Gi"},
		"size: 10gb":                                         {"/size", "10gb"},
		"size: -5":                                           {"/size", "-5"},
	} {
		_, err := Render(Request{Values: values})
		require.Error(t, err, values)
		for _, part := range want {
			require.ErrorContains(t, err, part, values)
		}
	}
}

// A schema can only say the type of a wrong value, so a template says the rest; of every parameter, with the schema and without it.
func TestWrongTypesAreNamed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Root(), "charts/etcd/values.schema.json"))
	require.NoError(t, err)
	var schema property
	require.NoError(t, json.Unmarshal(text, &schema))
	paths := schema.paths("")
	require.Greater(t, len(paths), 20)
	for _, path := range paths {
		wrong := "true"
		if path == "dataStore.enabled" || path == "dataStore.precreateSecrets" {
			wrong = `"true"`
		}
		values := wrong
		for _, name := range slices.Backward(strings.Split(path, ".")) {
			values = "{" + name + ": " + values + "}"
		}
		for _, skip := range []bool{false, true} {
			_, err := Render(Request{Values: values, SkipSchema: skip})
			require.ErrorContains(t, err, path+": "+wrong+" is no ", values)
		}
	}
	for _, values := range []string{"dataStore: null", "certificates: null", "certificates: {leaf: null}", "dataStore: {enabled: null}", "size: null"} {
		_, err := Render(Request{Values: values, SkipSchema: true})
		require.ErrorContains(t, err, ": null is no ", values)
	}
}

type property struct {
	Type       any
	Properties map[string]property
}

// paths are the parameters. What has no type is accepted and ignored; what stands in a free-form map is the API server's to judge.
func (p property) paths(prefix string) []string {
	var all []string
	for name, child := range p.Properties {
		if child.Type == nil {
			continue
		}
		all = append(all, prefix+name)
		if name != "affinity" {
			all = append(all, child.paths(prefix+name+".")...)
		}
	}
	return all
}

// C12: the domain as the platform tells it. A name that no look-up gives would part the members.
func TestC12Domains(t *testing.T) {
	for values, want := range map[string]string{
		"_cluster: {cluster-domain: Cozy.Local}":                       `_cluster.cluster-domain: "Cozy.Local"`,
		"_cluster: {cluster-domain: cozy.local.}":                      `_cluster.cluster-domain: "cozy.local."`,
		"_cluster: {cluster-domain: [a]}":                              "_cluster.cluster-domain",
		"_cluster: {cluster-domain: a b}":                              "_cluster.cluster-domain",
		"_cluster: {cluster-domain: 5}":                                "_cluster.cluster-domain: 5 is no string",
		"_cluster: {cluster-domain: svc.cozy.local}":                   `_cluster.cluster-domain: "svc.cozy.local" begins with svc`,
		"clusterDomain: svc.cluster.local":                             `clusterDomain: "svc.cluster.local" begins with svc`,
		"_cluster: cozy.local":                                         `_cluster: "cozy.local" is no map`,
		"_cluster: [cozy.local]":                                       `_cluster: ["cozy.local"] is no map`,
		"clusterDomain: " + strings.Repeat("a", 64) + ".local":         "/clusterDomain",
		"clusterDomain: " + strings.Repeat("aaaaaaaaa.", 17) + "local": "clusterDomain: \"aaaa",
	} {
		_, err := Render(Request{Values: values, Namespace: strings.Repeat("n", 63)})
		require.ErrorContains(t, err, want, values)
	}
	_, err := Render(Request{Values: "clusterDomain: " + strings.Repeat("aaaaaaaaa.", 16) + "local", Namespace: strings.Repeat("n", 63)})
	require.NoError(t, err)
}

// A cluster without one of the operators says which is missing, instead of that a look-up failed.
func TestMissingKindsAreNamed(t *testing.T) {
	served := []string{"v1/Secret", "cert-manager.io/v1/Certificate", "etcd-operator.cozystack.io/v1alpha2/EtcdCluster", "kamaji.clastix.io/v1alpha1/DataStore"}
	for i, want := range []string{"install cert-manager", "install the cozystack etcd-operator", "install Kamaji, or set dataStore.enabled to false"} {
		_, err := Render(Request{Kinds: slices.Delete(slices.Clone(served), i+1, i+2)})
		require.ErrorContains(t, err, "does not serve "+served[i+1]+": "+want)
	}
	_, err := Render(Request{Kinds: served})
	require.NoError(t, err)
	_, err = Render(Request{Kinds: served[:3], Values: "dataStore: {enabled: false}"})
	require.NoError(t, err)
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
enabled: true
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
