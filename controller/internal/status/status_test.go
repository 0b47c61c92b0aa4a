package status

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBoundKeepsRunesWhole(t *testing.T) {
	for limit := 4; limit < 12; limit++ {
		got := boundTo("äöüßäöüß", limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got), "limit %d: %q", limit, got)
	}
	require.Equal(t, "short", Bound("short"))
	require.Len(t, Bound(strings.Repeat("x", 2*MaxMessage)), MaxMessage)
}

func TestTrioHasOneMeaningAtATime(t *testing.T) {
	var list []metav1.Condition
	c := Conditions{List: &list, Generation: 3}
	state := func(kind string) string {
		if got := meta.FindStatusCondition(list, kind); got != nil {
			require.Equal(t, int64(3), got.ObservedGeneration)
			return string(got.Status) + "/" + got.Reason
		}
		return ""
	}
	c.Progressing("Working", "step %d", 1)
	require.Equal(t, []string{"False/Working", "True/Working", ""}, []string{state(Ready), state(Reconciling), state(Stalled)})
	c.Failed("Broken", "no way")
	require.Equal(t, []string{"False/Broken", "", "True/Broken"}, []string{state(Ready), state(Reconciling), state(Stalled)})
	c.Done("Succeeded", "all there")
	require.Equal(t, []string{"True/Succeeded", "", ""}, []string{state(Ready), state(Reconciling), state(Stalled)})
}
