package conformance

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOurColumnsPrint reads what kubectl would print: a path that finds nothing prints nothing and is no error anywhere.
func TestOurColumnsPrint(t *testing.T) {
	s := shared(t, ourCRDs()...)
	const namespaced = "/apis/backups.cozystack.io/v1alpha1/namespaces/default/"
	rows := map[string]struct {
		path, status string // a status is written after the object
		want         map[string]any
	}{
		"backup": {namespaced + "backups/", "", map[string]any{
			"Phase": "Ready", "Application": "etcd", "Bytes": float64(20512), "Revision": "31", "URI": "s3://backups/a/b/c.db",
		}},
		"class": {"/apis/backups.cozystack.io/v1alpha1/backupclasses/", "", map[string]any{"Kinds": "Etcd", "Strategies": "strategy"}},
		"plan":  {namespaced + "plans/", "", map[string]any{"Application": "etcd", "Class": "class", "Cron": "30 2 * * *"}},
		"job": {
			namespaced + "backupjobs/",
			`{phase: Succeeded, message: done, backupRef: {name: b}, conditions: [` + printedCondition("Ready", "Succeeded") + `]}`,
			map[string]any{"Phase": "Succeeded", "Reason": "Succeeded", "Application": "etcd", "Class": "class", "Backup": "b", "Message": "done"},
		},
		"restore": {
			namespaced + "restorejobs/",
			`{phase: Failed, message: refused, conditions: [` + printedCondition("Ready", "Incomplete") + `, ` + printedCondition("Serving", "Answered") + `, ` + printedCondition("Stalled", "Incomplete") + `]}`,
			map[string]any{"Phase": "Failed", "Reason": "Incomplete", "Backup": "backup", "Serving": "True", "Stalled": "Incomplete", "Message": "refused"},
		},
		"strategy": {"/apis/strategy.backups.cozystack.io/v1alpha1/etcds/", "", map[string]any{"Bucket": "backups"}},
	}
	for base, row := range rows {
		t.Run(base, func(t *testing.T) {
			obj := s.fresh(t, bases(t)[base])
			require.NoError(t, s.client.Create(t.Context(), obj))
			if row.status != "" {
				patch := client.RawPatch(types.MergePatchType, toJSON(t, "status: "+row.status))
				require.NoError(t, s.client.Status().Patch(t.Context(), obj.DeepCopy(), patch))
			}
			got := printed(t, s, row.path+obj.GetName())
			for column, want := range row.want {
				require.Equal(t, want, got[column], column)
			}
		})
	}
}

func printedCondition(kind, reason string) string {
	return `{type: ` + kind + `, status: "True", reason: ` + reason + `, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}`
}

// printed asks for an object as a table and returns its cells by column.
func printed(t *testing.T, s *server, path string) map[string]any {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(s.cluster.Config)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.cluster.Config.Host+path, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := httpClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var table metav1.Table
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&table))
	require.Len(t, table.Rows, 1)
	cells := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		cells[column.Name] = table.Rows[0].Cells[i]
	}
	return cells
}
