package restorejob

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatesPageListsTheTable(t *testing.T) {
	page, err := os.ReadFile("STATES.md")
	require.NoError(t, err)
	var listed, rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|.*\\|.*\\|.*\\|$").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	for _, row := range Rows {
		rows = append(rows, row.Name)
	}
	require.Equal(t, rows, listed, "STATES.md lists other rows than the table, or in another order")
	for _, c := range decideCases() {
		if d := Decide(c.seen); d.Reason != "" && !strings.HasPrefix(c.row, "RefuseO") && !strings.HasPrefix(c.row, "RefuseS") {
			require.Contains(t, string(page), d.Reason, "STATES.md does not name the reason of row %s", c.row)
		}
	}
}
