// Package status writes what a reconciler found: bounded conditions, the Ready / Reconciling / Stalled trio, and one patch per pass.
package status

import (
	"context"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The trio that kstatus and `kubectl wait` understand.
const (
	Ready       = "Ready"
	Reconciling = "Reconciling"
	Stalled     = "Stalled"
)

// MaxMessage bounds every message of ours, in bytes; the API server allows 32768 in a condition.
const MaxMessage = 4096

// Bound cuts a message to at most MaxMessage bytes without splitting a rune.
func Bound(msg string) string { return boundTo(msg, MaxMessage) }

func boundTo(msg string, limit int) string {
	const mark = "…"
	if len(msg) <= limit {
		return msg
	}
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(msg[cut]) {
		cut--
	}
	return msg[:cut] + mark
}

// Conditions edits the conditions of one object for one generation.
type Conditions struct {
	List       *[]metav1.Condition
	Generation int64
}

// Set writes one condition; the transition time moves only when the status changes.
func (c Conditions) Set(kind string, status metav1.ConditionStatus, reason, format string, args ...any) {
	meta.SetStatusCondition(c.List, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: c.Generation, Reason: reason, Message: Bound(fmt.Sprintf(format, args...)),
	})
}

// Progressing says that work goes on: Ready=False, Reconciling=True, no Stalled.
func (c Conditions) Progressing(reason, format string, args ...any) {
	c.Set(Ready, metav1.ConditionFalse, reason, format, args...)
	c.Set(Reconciling, metav1.ConditionTrue, reason, format, args...)
	meta.RemoveStatusCondition(c.List, Stalled)
}

// Done says that the goal is reached: Ready=True alone.
func (c Conditions) Done(reason, format string, args ...any) {
	c.Set(Ready, metav1.ConditionTrue, reason, format, args...)
	meta.RemoveStatusCondition(c.List, Reconciling)
	meta.RemoveStatusCondition(c.List, Stalled)
}

// Failed says that nothing more will happen by itself: Ready=False, Stalled=True.
func (c Conditions) Failed(reason, format string, args ...any) {
	c.Set(Ready, metav1.ConditionFalse, reason, format, args...)
	c.Set(Stalled, metav1.ConditionTrue, reason, format, args...)
	meta.RemoveStatusCondition(c.List, Reconciling)
}

// Patch writes the difference between before and after to the status subresource, guarded by the resource version, and writes nothing when there is none.
// It reports whether a write was made. On success after carries the new resource version.
func Patch(ctx context.Context, c client.Client, before, after client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return false, fmt.Errorf("save the status of %s: %w", client.ObjectKeyFromObject(after), err)
	}
	return true, nil
}
