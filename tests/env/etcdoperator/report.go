package etcdoperator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// report writes what a settled number of members amounts to.
func (c clusters) report(ctx context.Context, p *picture) (ctrl.Result, error) {
	if err := c.reconcileBudget(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	status := &p.cluster.Status
	status.ReadyMembers = int32(p.ready())
	switch {
	case p.desired() == 0:
		c.reportPaused(p)
	default:
		c.reportHealth(p)
		if p.complete() {
			status.ProgressDeadline = nil
			setCondition(p.cluster, etcdv1alpha2.ConditionProgressing, false, etcdv1alpha2.ReasonReconciled, "actual state matches status.observed")
		}
	}
	if err := c.save(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	if !p.complete() || !latched(p.cluster) {
		return c.soon(), nil
	}
	return ctrl.Result{RequeueAfter: 100 * c.opts.Timing.Poll}, nil
}

func (c clusters) reportPaused(p *picture) {
	message := "cluster is paused (spec.replicas=0); no data has been written (cluster never bootstrapped)"
	if p.dormant != nil {
		message = "cluster is paused (spec.replicas=0); data is preserved on PVC data-" + p.dormant.Name
	}
	p.cluster.Status.ProgressDeadline = nil
	setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, false, etcdv1alpha2.ReasonPaused, message)
	setCondition(p.cluster, etcdv1alpha2.ConditionDegraded, false, etcdv1alpha2.ReasonPaused, "")
	setCondition(p.cluster, etcdv1alpha2.ConditionProgressing, false, etcdv1alpha2.ReasonPaused, "")
}

func (c clusters) reportHealth(p *picture) {
	n, want := p.ready(), p.desired()
	count := fmt.Sprintf("%d/%d members ready", n, want)
	switch {
	case n == want:
		setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, true, etcdv1alpha2.ReasonQuorumHealthy, "All members are ready")
		setCondition(p.cluster, etcdv1alpha2.ConditionDegraded, false, etcdv1alpha2.ReasonQuorumHealthy, "")
	case n > want/2:
		whole := c.opts.Mutant != AvailableOnlyWhenWhole
		setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, whole, etcdv1alpha2.ReasonQuorumAvailable, count)
		setCondition(p.cluster, etcdv1alpha2.ConditionDegraded, true, etcdv1alpha2.ReasonMembersUnhealthy, count)
	default:
		setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, false, etcdv1alpha2.ReasonQuorumLost, count+", quorum lost")
		setCondition(p.cluster, etcdv1alpha2.ConditionDegraded, true, etcdv1alpha2.ReasonQuorumLost, "")
	}
}

// reconcileBudget keeps the disruption budget while anybody votes.
func (c clusters) reconcileBudget(ctx context.Context, p *picture) error {
	voters := int32(0)
	for i := range p.running {
		if p.running[i].Status.IsVoter {
			voters++
		}
	}
	want, there := budget(p.cluster, voters), &policyv1.PodDisruptionBudget{}
	err := c.client.Get(ctx, client.ObjectKeyFromObject(want), there)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case voters == 0 && err == nil:
		return client.IgnoreNotFound(c.client.Delete(ctx, there))
	case voters == 0:
		return nil
	case apierrors.IsNotFound(err):
		if err := c.createOwned(ctx, p.cluster, want); err != nil {
			return err
		}
		there = want
	case there.Spec.MinAvailable.IntValue() != want.Spec.MinAvailable.IntValue():
		before := there.DeepCopy()
		there.Spec.MinAvailable = want.Spec.MinAvailable
		if err := c.client.Patch(ctx, there, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return c.countBudget(ctx, there)
}

// countBudget plays the disruption controller for the budget: evictions need its figures.
func (c clusters) countBudget(ctx context.Context, b *policyv1.PodDisruptionBudget) error {
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, client.InNamespace(b.Namespace), client.MatchingLabels(b.Spec.Selector.MatchLabels)); err != nil {
		return err
	}
	healthy := int32(0)
	for i := range pods.Items {
		if podReady(&pods.Items[i]) && pods.Items[i].DeletionTimestamp.IsZero() {
			healthy++
		}
	}
	before := b.DeepCopy()
	desired := int32(b.Spec.MinAvailable.IntValue())
	b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.ExpectedPods = healthy, desired, int32(len(pods.Items))
	b.Status.DisruptionsAllowed, b.Status.ObservedGeneration = max(0, healthy-desired), b.Generation
	if equality.Semantic.DeepEqual(before.Status, b.Status) {
		return nil
	}
	return client.IgnoreNotFound(c.client.Status().Patch(ctx, b, client.MergeFrom(before)))
}

func podReady(p *corev1.Pod) bool {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}
