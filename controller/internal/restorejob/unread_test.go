package restorejob

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

type unreadable struct{}

func (unreadable) Source(context.Context, *backupsv1alpha1.Backup) (record.Source, error) {
	return record.Source{}, errors.New("the API server has no answer")
}

// A job whose request can never be read says so, and ends with the queue; one that has begun goes on asking, however long.
func TestC17AJobThatCannotBeReadEndsUnlessItHasBegun(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.tenant("again")
	before := g.cluster()
	g.sources = unreadable{}
	look := func() *backupsv1alpha1.RestoreJob {
		_, err := g.once("again")
		require.ErrorContains(t, err, "the API server has no answer")
		return g.job("again")
	}
	require.Equal(t, "False/"+backupsv1alpha1.ReasonRetrying, condition(look(), "Ready"))

	g.sources = nil
	for g.job("again").Status.StartedAt.IsZero() {
		_, err := g.once("again")
		require.NoError(t, err)
	}
	g.sources, g.late = unreadable{}, 25*time.Hour
	require.Equal(t, "False/"+backupsv1alpha1.ReasonRetrying, condition(look(), "Ready"))

	g.late = 0
	g.create(newJob("other"))
	_, err := g.once("other")
	require.Error(t, err)
	g.late = 25 * time.Hour
	_, err = g.once("other")
	require.NoError(t, err)
	job := g.job("other")
	require.Equal(t, backupsv1alpha1.RestoreJobFailed, job.Status.Phase)
	require.Equal(t, "False/"+backupsv1alpha1.ReasonDeadlineExceeded, condition(job, "Ready"))
	require.Contains(t, job.Status.Message, "the API server has no answer; nothing was touched")
	g.untouched(before)
}
