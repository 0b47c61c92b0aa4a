package restorejob

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// What hinders the cleaning up is tried again and leaves the final status alone: nothing is written, as there is nothing here to write with.
func TestTheFinalStatusStaysWhateverFailsLater(t *testing.T) {
	for _, phase := range []backupsv1alpha1.RestoreJobPhase{okPhase, badPhase} {
		cause := errors.New("no room for a Lease")
		w := &world{job: &backupsv1alpha1.RestoreJob{}, seen: Seen{Job: JobFacts{Phase: phase}}}
		_, err := (&Reconciler{}).settle(t.Context(), w, Decision{Verb: Do, Action: ActionForget}, cause)
		require.ErrorIs(t, err, cause)
	}
}

func TestASafetyCopyOfAnotherClusterIsNone(t *testing.T) {
	f := SafetyFacts{Decided: true, Prepared: true}
	require.True(t, f.safetyCopied())
	f.reconsider(&record.Safety{Snapshot: "s", ClusterUID: "one"}, Seen{Cluster: &ClusterFacts{UID: "two"}})
	require.NotEmpty(t, f.Problem)
	require.False(t, f.safetyCopied())
}

// An API server that does not answer has not taken a Pod away.
func TestAPodIsNotGoneBecauseNobodyAnswers(t *testing.T) {
	list := &record.Consumers{StartedAt: metav1.NewTime(now), Pods: []record.ConsumerPod{{Namespace: "n", ControlPlane: "a", Name: "p", UID: "1"}}}
	s := advance(list, func(string, string) ([]podNow, error) { return nil, errors.New("no answer") }, now)
	require.False(t, s.changed)
	require.Empty(t, s.next)
	require.Contains(t, s.waiting, "n/p was not found out about: no answer")
}
