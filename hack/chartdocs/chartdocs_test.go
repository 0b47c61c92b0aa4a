package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sample = `# About the file.
#
# @accept legacy An old block; ignored.

# @section First
# How many
# of them.
# @required
# @schema {"minimum": 1}
count: 3

# A size.
# @type quantity
size: 4Gi

# @section Second
# Things that belong together.
nested:
  # May be empty | or not.
  # @type duration
  # @optional
  wait: ""
# Free.
# @type map
free: {}
`

func write(t *testing.T, values, readme string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(values), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte(readme), 0o600))
	return dir
}

func TestSchema(t *testing.T) {
	dir := write(t, sample, "# T\n")
	require.NoError(t, run(dir, false))
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	require.Equal(t, false, schema["additionalProperties"])
	require.Equal(t, []any{"count"}, schema["required"])
	properties := schema["properties"].(map[string]any)
	require.Equal(t, map[string]any{"description": "An old block; ignored."}, properties["legacy"])
	require.Equal(t, map[string]any{"type": "integer", "minimum": 1.0, "default": 3.0, "description": "How many of them."}, properties["count"])
	require.Equal(t, []any{"string", "number", "null"}, properties["size"].(map[string]any)["type"])
	nested := properties["nested"].(map[string]any)
	require.Equal(t, false, nested["additionalProperties"])
	wait := nested["properties"].(map[string]any)["wait"].(map[string]any)
	require.Regexp(t, wait["pattern"], "")
	require.Regexp(t, wait["pattern"], "1h30m")
	require.NotRegexp(t, wait["pattern"], "1d")
	require.NotContains(t, properties["free"], "additionalProperties")
}

// Where a template checks the types, the schema lets any type come so far; the one that is meant stands first.
func TestCheckedSchema(t *testing.T) {
	dir := write(t, strings.Replace(sample, "\n# @accept", "\n# @checked\n# @accept", 1)+"# Several.\nmany: []\n", "# T\n")
	require.NoError(t, run(dir, false))
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	require.NoError(t, err)
	var schema struct{ Properties map[string]map[string]any }
	require.NoError(t, json.Unmarshal(text, &schema))
	require.Equal(t, []any{"integer", "string", "number", "boolean", "array", "object"}, schema.Properties["count"]["type"])
	require.Equal(t, []any{"object", "null", "string", "number", "boolean", "array"}, schema.Properties["nested"]["type"])
	require.Equal(t, []any{"array", "null", "string", "number", "boolean", "object"}, schema.Properties["many"]["type"])
}

func TestTable(t *testing.T) {
	dir := write(t, sample, "# T\n\n"+tableBegin+"old\n"+tableEnd+"\ntail\n")
	require.ErrorContains(t, run(dir, true), "out of date")
	require.NoError(t, run(dir, false))
	require.NoError(t, run(dir, true))
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	require.Equal(t, `# T

<!-- values: generated from values.yaml -->

### First

| Name | Description | Type | Default |
|---|---|---|---|
| `+"`count` | How many of them. | integer | `3`"+` |
| `+"`size` | A size. | quantity | `4Gi`"+` |

### Second

| Name | Description | Type | Default |
|---|---|---|---|
| `+"`nested` | Things that belong together. | object | "+` |
| `+"`nested.wait` | May be empty \\| or not. | duration | `\"\"`"+` |
| `+"`free` | Free. | map | `{}`"+` |

### Accepted besides

| Name | Meaning |
|---|---|
| `+"`legacy` | An old block; ignored."+` |

<!-- values: end -->

tail
`, string(readme))
}

func TestMistakesAreNamed(t *testing.T) {
	for values, want := range map[string]string{
		"count: 3\n":                            "count: has no comment",
		"# A.\n# @typ string\ncount: 3\n":       "unknown annotation @typ",
		"# A.\n# @type strange\ncount: 3\n":     `unknown type "strange"`,
		"# A.\n# @schema {\"a\"}\ncount: 3\n":   "count: @schema",
		"# A.\nnested:\n  inner: 1\n":           "nested.inner: has no comment",
		"- a\n":                                 "not a mapping",
		"# A.\n# @schema {\"a\": 1}\nbad: [\n}": "yaml",
	} {
		require.ErrorContains(t, run(write(t, values, ""), false), want, values)
	}
	dir := write(t, sample, tableBegin)
	require.ErrorContains(t, run(dir, false), "README.md: no line <!-- values: end -->")
}

// What is in the tree is what the tool writes.
func TestChartsAreCurrent(t *testing.T) {
	for _, chart := range []string{"../..", "../../charts/etcd", "../../charts/etcd-controller"} {
		require.NoError(t, run(chart, true))
	}
	readme, err := os.ReadFile("../../charts/etcd/README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "| `size` |")
}
