package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWritten(t *testing.T) {
	version := func(uid, version string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
	}
	var w Written
	require.False(t, w.Behind(version("a", "5")), "nothing was written")
	w.Note(version("a", "10"))
	require.True(t, w.Behind(version("a", "9")), "9 is less than 10, whatever the text says")
	require.True(t, w.Behind(version("a", "9")))
	require.False(t, w.Behind(version("b", "9")))
	require.False(t, w.Behind(version("a", "10")))
	require.Empty(t, w.versions, "caught up")
	w.Note(version("a", "12"))
	require.False(t, w.Behind(version("a", "13")), "somebody else wrote, too")
	w.Note(version("a", "12"))
	require.False(t, w.Behind(version("a", "no number")), "what cannot be compared holds nobody up")
}
