package chart

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const quotaCap = 8 << 30

// wantQuota is what the chart promises, computed by Kubernetes' own quantities: 95 % of the bytes, rounded down, at most 8 GiB. ok is false where the render must fail.
func wantQuota(size string) (quota int64, ok bool) {
	q, err := resource.ParseQuantity(size)
	if err != nil || q.Sign() <= 0 {
		return 0, false
	}
	if q.Cmp(*resource.NewQuantity(1<<40, resource.BinarySI)) > 0 {
		return quotaCap, true
	}
	quota = new(big.Int).Div(new(big.Int).Mul(big.NewInt(q.Value()), big.NewInt(95)), big.NewInt(100)).Int64()
	return min(quota, quotaCap), quota > 0
}

func cluster(t *testing.T, values string) (*unstructured.Unstructured, error) {
	t.Helper()
	objects, err := Objects(Request{Values: values})
	if err != nil {
		return nil, err
	}
	return find(t, objects, "EtcdCluster", "etcd"), nil
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	require.Failf(t, "not rendered", "%s %s", kind, name)
	return nil
}

func quotaOf(t *testing.T, object *unstructured.Unstructured) int64 {
	t.Helper()
	quota, found, err := unstructured.NestedInt64(object.Object, "spec", "options", "quotaBackendBytes")
	require.NoError(t, err, "the quota must be a plain integer")
	require.True(t, found)
	return quota
}

// C01, C03: spellings as people write them and as the API server writes them back, unquoted where YAML makes numbers of them.
func TestC01QuotaOfEverySpelling(t *testing.T) {
	for _, size := range []string{
		"1.5Gi", "500M", "0.2Ti", "219902325555200m", "5e9", "5E9", `"10"`, "10737418240", `"10737418240"`, "1e3", "1e+3", "4G", "4Gi", "1Ti", "20Gi",
		".5Gi", `"5.Gi"`, "+1Gi", "1000000n", "9000000000000000u", "1Ki", "1Mi", "1k", "1Pi", "1Ei", "16Ei", "1T", "1P", "1E", "0.000000001Ei", "1e30",
		"1610612736.5", "0.1", "2", "1.10", "1e-3", "100e-1", `"1e0000009"`, "9042036412", "9042036413", "8589934592", "0x10", "1_000", "012Gi", `"0012Gi"`,
		`"` + strings.Repeat("0", 40) + `3Gi"`, `"1.` + strings.Repeat("0", 40) + `Gi"`, `"1.` + strings.Repeat("3", 40) + `Gi"`,
	} {
		t.Run(size, func(t *testing.T) { checkSize(t, size) })
	}
}

// C01: what Kubernetes refuses, and what is nothing or less, stops the render with the field and the value named.
func TestC01NonsenseSizes(t *testing.T) {
	for _, size := range []string{
		`""`, "10gb", "-1Gi", "-1", "0", "0Gi", "0.0", `" 4Gi"`, `"4 Gi"`, "4GiB", "Gi", `"."`, `"+"`, "4Gi3", "1e", "1e1.5", "1,5Gi", "true", "[4]", "{a: 4}",
		"4KI", "4mi", "null", `"1\n"`, "1", "0.4", "1n", "1e-9", "1e-999999",
	} {
		t.Run(size, func(t *testing.T) {
			_, err := cluster(t, "size: "+size)
			require.ErrorContains(t, err, "size")
			_, err = Render(Request{Values: "size: " + size, SkipSchema: true})
			require.ErrorContains(t, err, "size", "without the schema too")
		})
	}
}

// Thousands of quantities in one render: the chart's helpers alone, asked for the quota of each.
func TestC01RandomQuantities(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var sizes, want []string
	for len(sizes) < 2000 {
		size := randomQuantity(random)
		if quota, ok := wantQuota(size); ok {
			sizes, want = append(sizes, size), append(want, fmt.Sprintf("%s %d", size, quota))
		}
	}
	got, err := probe(`{{ range .Values.sizes }}{{ . }} {{ include "etcd.quotaBackendBytes" (dict "Values" (dict "size" . "quotaBackendBytes" "")) }}
{{ end }}`, map[string]any{"sizes": sizes})
	require.NoError(t, err)
	require.Equal(t, want, strings.Split(strings.TrimSpace(got), "\n"))
}

func checkSize(t *testing.T, size string) {
	t.Helper()
	spelled := size
	if value, err := parseYAMLScalar(size); err == nil {
		spelled = value
	}
	want, ok := wantQuota(spelled)
	object, err := cluster(t, "size: "+size)
	if !ok {
		require.ErrorContains(t, err, "size", "%s (%s)", size, spelled)
		return
	}
	require.NoError(t, err, "%s (%s)", size, spelled)
	require.Equal(t, want, quotaOf(t, object), "%s (%s)", size, spelled)
	rendered, _, err := unstructured.NestedString(object.Object, "spec", "storage", "size")
	require.NoError(t, err)
	given, back := resource.MustParse(spelled), resource.MustParse(rendered)
	require.Zero(t, given.Cmp(back), "%s became %s", size, rendered)
}

func randomQuantity(random *rand.Rand) string {
	digits := func(n int) string {
		var out strings.Builder
		for range n {
			fmt.Fprint(&out, random.IntN(10))
		}
		return out.String()
	}
	number := digits(1 + random.IntN(12))
	if random.IntN(2) == 0 {
		number += "." + digits(random.IntN(14))
	}
	if random.IntN(8) == 0 {
		number = "." + digits(1+random.IntN(12))
	}
	if random.IntN(10) == 0 {
		number = "+" + number
	}
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E6", "e-3", "e+2", "E-9"}
	return number + suffixes[random.IntN(len(suffixes))]
}

// The request is the limit divided by the ratio, rounded up to a whole thousandth; memory is requested in full.
func TestResources(t *testing.T) {
	for _, c := range []struct{ values, cpuLimit, cpuRequest, memory string }{
		{"", "1000m", "100m", "512Mi"},
		{"resources: {cpu: 2}", "2", "200m", "512Mi"},
		{"resources: {cpu: 0.5, memory: 1073741824}", "0.5", "50m", "1073741824"},
		{"resources: {cpu: 1001m}", "1001m", "101m", "512Mi"},
		{"resources: {cpu: 1u}", "1u", "1m", "512Mi"},
		{"_cluster: {cpu-allocation-ratio: \"4\"}", "1000m", "250m", "512Mi"},
		{"_cluster: {cpu-allocation-ratio: 2.5}", "1000m", "400m", "512Mi"},
		{"_cluster: {cpu-allocation-ratio: 1}", "1000m", "1000m", "512Mi"},
		{"_cluster: {cpu-allocation-ratio: \"\"}", "1000m", "100m", "512Mi"},
	} {
		t.Run(c.values, func(t *testing.T) {
			object, err := cluster(t, c.values)
			require.NoError(t, err)
			got, _, err := unstructured.NestedMap(object.Object, "spec", "resources")
			require.NoError(t, err)
			require.Equal(t, map[string]any{
				"limits":   map[string]any{"cpu": c.cpuLimit, "memory": c.memory},
				"requests": map[string]any{"cpu": c.cpuRequest, "memory": c.memory},
			}, got)
		})
	}
	for values, field := range map[string]string{
		"resources: {memory: 512m}":                 "resources.memory",
		"resources: {cpu: 0}":                       "cpu",
		"resources: {cpu: 100000000}":               "resources.cpu",
		"resources: {memory: lots}":                 "memory",
		"_cluster: {cpu-allocation-ratio: 0.5}":     "_cluster.cpu-allocation-ratio",
		"_cluster: {cpu-allocation-ratio: \"-10\"}": "_cluster.cpu-allocation-ratio",
		"_cluster: {cpu-allocation-ratio: ten}":     "_cluster.cpu-allocation-ratio",
		"_cluster: {cpu-allocation-ratio: 0}":       "_cluster.cpu-allocation-ratio",
	} {
		_, err := cluster(t, values)
		require.ErrorContains(t, err, field, values)
	}
}

// C03: an explicit quota is taken as it is, up to the size of the volume.
func TestC03ExplicitQuota(t *testing.T) {
	for values, want := range map[string]int64{
		"quotaBackendBytes: 2147483648":            2147483648,
		"quotaBackendBytes: \"2147483648\"":        2147483648,
		"quotaBackendBytes: 1.5Gi":                 1610612736,
		"quotaBackendBytes: 4Gi":                   4294967296,
		"size: 20Gi\nquotaBackendBytes: 16Gi":      17179869184,
		"quotaBackendBytes: null":                  4080218931,
		"size: 20Gi":                               quotaCap,
		"quotaBackendBytes: 4294967296\nsize: 4Gi": 4294967296,
	} {
		object, err := cluster(t, values)
		require.NoError(t, err, values)
		require.Equal(t, want, quotaOf(t, object), values)
	}
	for _, values := range []string{"quotaBackendBytes: 4294967297", "quotaBackendBytes: 5Gi", "size: 1G\nquotaBackendBytes: 1Gi"} {
		_, err := cluster(t, values)
		require.ErrorContains(t, err, "quotaBackendBytes", values)
		require.ErrorContains(t, err, "larger than the volume", values)
	}
	for _, values := range []string{"quotaBackendBytes: 0", "quotaBackendBytes: -1", "quotaBackendBytes: much", "quotaBackendBytes: \"0\"", "quotaBackendBytes: 2", "quotaBackendBytes: 2147m", "quotaBackendBytes: true"} {
		_, err := cluster(t, values)
		require.ErrorContains(t, err, "quotaBackendBytes", values)
	}
}
