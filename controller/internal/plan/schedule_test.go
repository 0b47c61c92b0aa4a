package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

func cronOf(expression string) backupsv1alpha1.PlanSchedule {
	return backupsv1alpha1.PlanSchedule{Type: backupsv1alpha1.PlanScheduleCron, Cron: expression}
}

func mustParse(t *testing.T, expression string) schedule {
	t.Helper()
	s, err := parse(cronOf(expression))
	require.NoError(t, err)
	return s
}

func TestC44AcceptedForms(t *testing.T) {
	for _, expression := range []string{
		"30 2 * * *", " 30 2 * * * ", "*/15 * * * *", "0 0 1,15 * MON-FRI", "0 0 * JAN *", "0 0 ? * 0", "0 0 29 2 *",
		"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually",
	} {
		_, err := parse(cronOf(expression))
		require.NoError(t, err, expression)
	}
	_, err := parse(backupsv1alpha1.PlanSchedule{Cron: "0 0 * * *"})
	require.NoError(t, err, "an empty type means cron")
}

func TestC44RefusedForms(t *testing.T) {
	refused := map[string]string{
		"":                                "empty",
		"   ":                             "empty",
		"@every 1h":                       "five fields",
		"@every":                          "five fields",
		"0 30 2 * * *":                    "six fields",
		"TZ=Europe/Berlin 30 2 * * *":     "time zone",
		"CRON_TZ=Europe/Berlin 0 2 * * *": "time zone",
		"TZ=":                             "time zone",
		"TZ=Europe/Berlin":                "time zone",
		"@reboot":                         "@reboot",
		"61 * * * *":                      "61",
		"* * * *":                         "* * * *",
		"0 0 31 2 *":                      "never",
		"0 0 * * 9":                       "9",
	}
	for expression, want := range refused {
		_, err := parse(cronOf(expression))
		require.ErrorContains(t, err, want, expression)
		require.ErrorContains(t, err, "spec.schedule.cron", expression)
	}
	_, err := parse(backupsv1alpha1.PlanSchedule{Type: "calendar", Cron: "0 0 * * *"})
	require.ErrorContains(t, err, "spec.schedule.type")
}

// Over both changes of 2026, in whatever zone the process thinks it is, a plan runs once a day at the same UTC time.
func TestC44DaylightSaving(t *testing.T) {
	s := mustParse(t, "30 2 * * *")
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Los_Angeles"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			location = time.FixedZone(zone, 3600) // no tzdata here: any other zone shows the same
		}
		for _, change := range []time.Time{time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)} {
			var ticks []time.Time
			handled := change.AddDate(0, 0, -1).In(location)
			for now := handled; now.Before(change.AddDate(0, 0, 2)); now = now.Add(time.Minute) {
				if due := s.due(handled, now.In(location)); !due.IsZero() {
					ticks, handled = append(ticks, due), due
				}
			}
			require.Len(t, ticks, 3, "%s %s", zone, change)
			for i, tick := range ticks {
				require.Equal(t, change.AddDate(0, 0, i-1).Add(150*time.Minute), tick.UTC())
			}
		}
	}
}

func TestMissedRuns(t *testing.T) {
	s := mustParse(t, "0 * * * *")
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	created := noon.Add(-30 * time.Minute)

	require.True(t, s.due(created, noon.Add(-time.Nanosecond)).IsZero())
	require.Equal(t, noon, s.due(created, noon))
	require.Equal(t, noon, s.due(created, noon.Add(5*time.Minute)))
	require.True(t, s.due(created, noon.Add(5*time.Minute+time.Nanosecond)).IsZero(), "missed by more than five minutes")
	require.True(t, s.missed(created, noon.Add(5*time.Minute)).IsZero())
	require.Equal(t, noon, s.missed(created, noon.Add(5*time.Minute+time.Nanosecond)))
	require.True(t, s.due(noon, noon.Add(time.Minute)).IsZero(), "dealt with")
	require.True(t, s.due(noon.Add(time.Second), noon.Add(time.Minute)).IsZero(), "from before the plan's time")
	require.True(t, s.missed(noon.Add(time.Second), noon.Add(30*time.Minute)).IsZero())

	minutely := mustParse(t, "* * * * *")
	require.Equal(t, noon, minutely.due(created, noon.Add(30*time.Second)), "only the latest tick is run")
}

func TestC46JitterIsStableBoundedAndSpreads(t *testing.T) {
	daily, quarterly, minutely := mustParse(t, "0 0 * * *"), mustParse(t, "*/15 * * * *"), mustParse(t, "* * * * *")
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := map[time.Duration]int{}
	for i := range 300 {
		uid := types.UID(fmt.Sprintf("0a1b2c3d-4e5f-6789-abcd-%012d", i))
		j := daily.jitter(uid, midnight)
		require.Equal(t, j, daily.jitter(uid, midnight))
		require.Less(t, j, time.Minute)
		require.Less(t, quarterly.jitter(uid, midnight), time.Minute)
		require.Less(t, minutely.jitter(uid, midnight), 6*time.Second)
		at[j]++
	}
	for second, n := range at {
		require.LessOrEqual(t, n, 20, "%s", second)
	}
	require.Greater(t, len(at), 40)
}

// The name comes from the schedule, not from the moment of creation.
func TestJobName(t *testing.T) {
	require.Equal(t, "nightly-29538870", jobName("nightly", time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)))
}
