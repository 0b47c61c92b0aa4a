package plan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/types"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// missedAfter is how late a run may start; Cozystack's own controller has the same limit.
const missedAfter = 5 * time.Minute

// maxJitter bounds the delay that keeps plans with the same schedule apart.
const maxJitter = time.Minute

// parser takes five fields, a question mark for a star, and the names of calendar times.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// schedule is a Plan's, in UTC whatever the zone of the process is.
type schedule struct{ cron.Schedule }

// parse reads a schedule or says what to write instead.
func parse(s backupsv1alpha1.PlanSchedule) (schedule, error) {
	if s.Type != "" && s.Type != backupsv1alpha1.PlanScheduleCron {
		return schedule{}, fmt.Errorf("spec.schedule.type: %q is not known: write %q", s.Type, backupsv1alpha1.PlanScheduleCron)
	}
	expression := strings.TrimSpace(s.Cron)
	switch {
	case expression == "":
		return schedule{}, errors.New("spec.schedule.cron is empty: write five fields, such as \"30 2 * * *\"")
	case strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ="):
		return schedule{}, fmt.Errorf("spec.schedule.cron: %q names a time zone: plans run in UTC; leave the zone out and convert the hour", expression)
	case strings.HasPrefix(expression, "@every"):
		return schedule{}, fmt.Errorf("spec.schedule.cron: %q depends on when the controller was started: write five fields, such as \"0 */6 * * *\"", expression)
	case len(strings.Fields(expression)) == 6:
		return schedule{}, fmt.Errorf("spec.schedule.cron: %q has six fields: leave the seconds out", expression)
	}
	parsed, err := parser.Parse(expression)
	if err != nil {
		return schedule{}, fmt.Errorf("spec.schedule.cron: %q: %w", expression, err)
	}
	result := schedule{parsed}
	if result.after(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return schedule{}, fmt.Errorf("spec.schedule.cron: %q never comes true", expression)
	}
	return result, nil
}

// after is the first tick later than t.
func (s schedule) after(t time.Time) time.Time { return s.Next(t.UTC()) }

// due is the latest tick up to now that is later than handled and not yet missed; zero if there is none.
func (s schedule) due(handled, now time.Time) time.Time {
	from := now.Add(-missedAfter - time.Nanosecond)
	if handled.After(from) {
		from = handled
	}
	var latest time.Time
	for t := s.after(from); !t.IsZero() && !t.After(now); t = s.after(t) {
		latest = t
	}
	return latest
}

// missed is the first tick later than handled that is too old to be run; zero if there is none.
func (s schedule) missed(handled, now time.Time) time.Time {
	t := s.after(handled)
	if t.IsZero() || now.Sub(t) <= missedAfter {
		return time.Time{}
	}
	return t
}

// jitter delays the run of a tick by a time that is always the same for a plan: up to a minute, and never more than a tenth of the way to the next tick.
func (s schedule) jitter(uid types.UID, tick time.Time) time.Duration {
	bound := min(maxJitter, s.after(tick).Sub(tick)/10)
	if bound < time.Second {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return time.Duration(h.Sum32()%uint32(bound/time.Second)) * time.Second //nolint:gosec // at most 60
}

// jobName is Cozystack's name for the run of a tick, so that two controllers mean the same object.
func jobName(plan string, tick time.Time) string { return fmt.Sprintf("%s-%d", plan, tick.Unix()/60) }
