package restorejob

import (
	"context"
	"errors"
	"fmt"
)

func (r *Reconciler) actOnReport(ctx context.Context, w *world, d Decision) error {
	switch d.Action {
	case ActionReport:
		return r.writeReport(ctx, w)
	case ActionListConsumers:
		return r.listConsumers(ctx, w)
	case ActionNoteConsumers:
		return r.noteConsumers(ctx, w)
	case ActionTellConsumers:
		return r.patchReport(ctx, w)
	case ActionEvict:
		return r.evict(ctx, w)
	case ActionDisarm:
		return r.disarm(ctx, w)
	}
	return r.actOnSafety(ctx, w, d)
}

// disarm lifts the alarm through the first member that can. It is one request to the whole cluster, and harmless when it is repeated.
func (r *Reconciler) disarm(ctx context.Context, w *world) error {
	config, err := r.TLS(ctx, w.cluster)
	if err != nil {
		return fmt.Errorf("lift the NOSPACE alarm: %w", err)
	}
	var failed error
	for _, m := range w.seen.Members {
		alarms, err := r.Alarms.DialAlarms(memberTarget(w.cluster, m.Name, config))
		if err == nil {
			bounded, cancel := context.WithTimeout(ctx, askTimeout)
			err = alarms.DisarmNoSpace(bounded)
			cancel()
			_ = alarms.Close()
		}
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
