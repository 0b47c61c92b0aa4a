package restorejob

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
)

// optionTimeout is spec.options.restoreTimeoutSeconds: how long the whole restore may take, in whole seconds.
const optionTimeout = "restoreTimeoutSeconds"

// optionAllowOtherMinor is spec.options.allowOtherMinor: true accepts a snapshot of the etcd minor before the cluster's, or of an unknown one.
const optionAllowOtherMinor = "allowOtherMinor"

// optionDryRun is spec.options.dryRun: true stops after the report, with nothing changed.
const optionDryRun = "dryRun"

// optionRestartConsumers is spec.options.restartConsumers: false leaves the API servers of TenantControlPlanes alone after the restore.
const optionRestartConsumers = "restartConsumers"

// optionSafetySnapshot is spec.options.safetySnapshot: false restores without a copy of the live cluster.
const optionSafetySnapshot = "safetySnapshot"

// optionKeepVolumes is spec.options.keepOldVolumes: how long the volumes of the live cluster outlive it, such as 72h.
const optionKeepVolumes = "keepOldVolumes"

var knownOptions = []string{optionAllowOtherMinor, optionDryRun, optionKeepVolumes, optionRestartConsumers, optionTimeout, optionSafetySnapshot}

// Limits of optionTimeout. The upper one fits into the operator's own deadline field by far.
const (
	minTimeoutSeconds = 10
	maxTimeoutSeconds = 7 * 24 * 60 * 60
)

// Options is what a RestoreJob may ask for beyond its Backup.
type Options struct {
	Timeout         time.Duration
	AllowOtherMinor bool
	DryRun          bool
	// RestartConsumers is true by default.
	RestartConsumers bool
	NoSafety         bool
	KeepVolumes      time.Duration // whole seconds; 0 means that they are not kept
}

// parseOptions reads spec.options. An option that nobody reads is refused: whoever wrote it relies on it.
func parseOptions(raw *runtime.RawExtension) (Options, *Problem) {
	o := Options{Timeout: DefaultTimeout, RestartConsumers: true}
	if raw == nil || len(raw.Raw) == 0 {
		return o, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw.Raw, &fields); err != nil {
		return o, optionProblem("spec.options is no object of named options")
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !slices.Contains(knownOptions, name) {
			return o, optionProblem("spec.options.%s is unknown: remove it; the known options are: %s", name, strings.Join(knownOptions, ", "))
		}
	}
	for name, to := range map[string]*bool{optionAllowOtherMinor: &o.AllowOtherMinor, optionDryRun: &o.DryRun, optionRestartConsumers: &o.RestartConsumers} {
		if value, ok := fields[name]; ok {
			if err := json.Unmarshal(value, to); err != nil || string(value) == "null" { // a dry run that somebody forgot to spell out must not delete anything
				return o, optionProblem("spec.options.%s is %s: give true or false", name, shorten(string(value)))
			}
		}
	}
	if problem := o.parseWayBack(fields); problem != nil {
		return o, problem
	}
	if value, ok := fields[optionTimeout]; ok {
		var seconds int64
		if err := json.Unmarshal(value, &seconds); err != nil || seconds < minTimeoutSeconds || seconds > maxTimeoutSeconds {
			return o, optionProblem("spec.options.%s is %s: give a whole number of seconds from %d to %d", optionTimeout, shorten(string(value)), minTimeoutSeconds, maxTimeoutSeconds)
		}
		o.Timeout = time.Duration(seconds) * time.Second
	}
	return o, nil
}

// Limits of optionKeepVolumes. Less would be over before the restore is.
const (
	minKeepVolumes = time.Hour
	maxKeepVolumes = 90 * 24 * time.Hour
)

// parseWayBack reads the options about what is left of the cluster that is replaced.
func (o *Options) parseWayBack(fields map[string]json.RawMessage) *Problem {
	if value, ok := fields[optionSafetySnapshot]; ok {
		var wanted bool
		if err := json.Unmarshal(value, &wanted); err != nil || string(value) == "null" {
			return optionProblem("spec.options.%s is %s: give true or false", optionSafetySnapshot, shorten(string(value)))
		}
		o.NoSafety = !wanted
	}
	if value, ok := fields[optionKeepVolumes]; ok {
		var text string
		err := json.Unmarshal(value, &text)
		if err == nil {
			o.KeepVolumes, err = time.ParseDuration(text)
		}
		if err != nil || o.KeepVolumes < minKeepVolumes || o.KeepVolumes > maxKeepVolumes {
			return optionProblem("spec.options.%s is %s: give a duration from 1h to 2160h, such as \"72h\"", optionKeepVolumes, shorten(string(value)))
		}
	}
	return nil
}

func optionProblem(format string, args ...any) *Problem {
	return &Problem{Reason: backupsv1alpha1.ReasonOptionsInvalid, Message: fmt.Sprintf(format, args...)}
}

func shorten(s string) string {
	const most = 64
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
