package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// backOff before the next attempt after a remediation; helm-controller's own begins there.
const backOff = 750 * time.Millisecond

// run is one pass over one HelmRelease with its chart and values.
type run struct {
	c      *Controller
	hr     *fluxv2.HelmRelease
	chart  *chart.Chart
	values map[string]any
	digest string // of the values
}

func (c *Controller) newRun(ctx context.Context, hr *fluxv2.HelmRelease) (*run, error) {
	ch, err := c.loadChart(hr)
	if err != nil {
		return nil, err
	}
	values, err := c.values(ctx, hr)
	if err != nil {
		return nil, err
	}
	r := &run{c: c, hr: hr, chart: ch, values: values, digest: configDigest(values)}
	st := &hr.Status
	st.StorageNamespace = r.storageNamespace()
	if st.LastAttemptedGeneration != hr.Generation || st.LastAttemptedRevision != ch.Metadata.Version || st.LastAttemptedConfigDigest != r.digest {
		st.Failures, st.InstallFailures, st.UpgradeFailures = 0, 0, 0
	}
	st.LastAttemptedGeneration, st.LastAttemptedRevision, st.LastAttemptedConfigDigest = hr.Generation, ch.Metadata.Version, r.digest
	return r, nil
}

// toDesired takes steps until none is left. It takes each kind of step once: a release action, at most one remediation of it, and no more in this pass.
func (r *run) toDesired(ctx context.Context, forced bool, save func() error) (outcome, error) {
	taken := map[string]bool{}
	for {
		s, err := r.state(ctx)
		if err != nil {
			setReady(r.hr, metav1.ConditionFalse, "StateError", err.Error())
			return outcome{}, err
		}
		next, err := nextStep(r.hr, s, forced)
		switch {
		case errors.Is(err, errExhausted):
			return r.stalled(err), nil
		case err != nil:
			return outcome{}, err
		case next == stepNone:
			if s == inSync {
				r.keepHistory()
			}
			settled(r.hr)
			return outcome{observed: true, result: ctrl.Result{RequeueAfter: interval(r.hr)}}, nil
		case taken[next.kind()]:
			return r.again(), nil
		}
		r.begin(next)
		if err := save(); err != nil {
			return outcome{}, err
		}
		if err := r.take(ctx, next); err != nil {
			return outcome{}, err
		}
		forced, taken[next.kind()] = false, true
		if next.remediates() {
			return r.again(), nil
		}
		if err := save(); err != nil {
			return outcome{}, err
		}
	}
}

func (r *run) begin(next step) {
	message := fmt.Sprintf("Running '%s' action with timeout of %s", next, r.timeout())
	setReconciling(r.hr, "Progressing", message)
	if next == stepInstall || next == stepUpgrade {
		setReady(r.hr, metav1.ConditionUnknown, "Progressing", message)
	}
	r.c.opts.Log("HelmRelease %s/%s: %s", r.hr.Namespace, r.hr.Name, message)
}

// again ends a pass whose action failed: at once where a remediation left retries, after the retry interval under RetryOnFailure, never where the retries are used up.
func (r *run) again() outcome {
	active, failures := activeRemediation(r.hr)
	switch {
	case active == nil:
		setReconciling(r.hr, "ProgressingWithRetry", readyMessage(r.hr))
		return outcome{result: ctrl.Result{RequeueAfter: retryInterval(r.hr)}}
	case exhausted(active, failures):
		return r.stalled(errExhausted)
	}
	setReconciling(r.hr, "ProgressingWithRetry", readyMessage(r.hr))
	return outcome{result: ctrl.Result{RequeueAfter: backOff}}
}

func (r *run) stalled(err error) outcome {
	_, failures := activeRemediation(r.hr)
	setStalled(r.hr, "RetriesExceeded", fmt.Sprintf("Failed to %s after %d attempt(s): %v", r.hr.Status.LastAttemptedReleaseAction, failures, err))
	return outcome{observed: true}
}
