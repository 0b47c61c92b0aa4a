package guard

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leases is a cache that holds what the test puts there.
type leases struct {
	client.Client
	items []coordinationv1.Lease
}

func (l *leases) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*coordinationv1.LeaseList).Items = l.items //nolint:errcheck,forcetypeassert // a test's own
	return nil
}

func held(renewed time.Time) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cozy", Name: LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("driver-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
}

// The driver's clock may be behind or ahead of ours: a Lease that changes is a driver that lives, and one that does not change is none.
func TestTheDriversClockDecidesNothing(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour, "the same": 0} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			cache := &leases{}
			g := &Guard{Client: cache, Events: events.NewFakeRecorder(10), Now: func() time.Time { return now }}
			look := func() string {
				t.Helper()
				_, err := g.look(t.Context())
				require.NoError(t, err)
				return g.Blocked()
			}
			for range 5 {
				cache.items = []coordinationv1.Lease{held(now.Add(off))}
				require.NotEmpty(t, look(), "a driver that lives is never passed over, not even at first sight")
				now = now.Add(2 * time.Second)
			}
			require.Contains(t, look(), "cozy/driver-0")
			now = now.Add(patience*15*time.Second - 3*time.Second)
			require.NotEmpty(t, look(), "it may be restarting")
			now = now.Add(3 * time.Second)
			require.Empty(t, look(), "it is gone")
			cache.items = []coordinationv1.Lease{held(now.Add(off))}
			require.NotEmpty(t, look(), "it is back")
			cache.items[0].Spec.HolderIdentity = ptr.To("")
			require.Empty(t, look(), "it gave the Lease back")
		})
	}
}

// A Lease that a driver left behind long ago costs a few seconds at the start, and is not reported as alive.
func TestALeaseLeftBehindHoldsUpShortly(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	recorder := events.NewFakeRecorder(1)
	g := &Guard{Client: &leases{items: []coordinationv1.Lease{held(now.Add(-time.Hour))}}, Events: recorder, Now: func() time.Time { return now }}
	again, err := g.look(t.Context())
	require.NoError(t, err)
	require.Equal(t, firstSight, again)
	require.NotEmpty(t, g.Blocked())
	now = now.Add(firstSight)
	_, err = g.look(t.Context())
	require.NoError(t, err)
	require.Empty(t, g.Blocked())
	require.Empty(t, recorder.Events)
}
