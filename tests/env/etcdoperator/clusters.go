package etcdoperator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// clusters drives each EtcdCluster one step a pass.
type clusters struct{ *Operator }

// picture is one cluster with its members.
type picture struct {
	cluster  *etcdv1alpha2.EtcdCluster
	before   *etcdv1alpha2.EtcdCluster
	running  []etcdv1alpha2.EtcdMember // neither deleted nor dormant, oldest first
	dormant  *etcdv1alpha2.EtcdMember
	deleting bool // a member is being deleted
}

func (p *picture) desired() int { return int(p.cluster.Status.Observed.Replicas) }

func (p *picture) seed() *etcdv1alpha2.EtcdMember {
	for i := range p.running {
		if p.running[i].Spec.Bootstrap {
			return &p.running[i]
		}
	}
	return nil
}

func (p *picture) ready() int {
	n := 0
	for i := range p.running {
		if ready(&p.running[i]) {
			n++
		}
	}
	return n
}

// complete says whether the latched target is reached.
func (p *picture) complete() bool {
	if p.desired() == 0 {
		return len(p.running) == 0
	}
	return p.cluster.Status.ClusterID != "" && len(p.running) == p.desired() && p.ready() == p.desired()
}

func (c clusters) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if c.Faults.now().Frozen {
		return c.soon(), nil
	}
	p, err := c.look(ctx, req.NamespacedName)
	if err != nil || p == nil {
		return ctrl.Result{}, err
	}
	if err := c.ensureServices(ctx, p.cluster); err != nil {
		return ctrl.Result{}, err
	}
	if p.cluster.Status.Observed == nil {
		p.cluster.Status.ClusterToken = fmt.Sprintf("%s-%s-%s", p.cluster.Namespace, p.cluster.Name, p.cluster.UID)
		return c.latch(ctx, p, etcdv1alpha2.ReasonInitialSnapshot, "snapshotted initial spec into status.observed")
	}
	done := p.complete()
	hasty := c.Faults.now().GiveUp
	if deadline := p.cluster.Status.ProgressDeadline; !done && deadline != nil && (time.Now().After(deadline.Time) || hasty != nil && hasty(req.Namespace, req.Name)) {
		return c.giveUp(ctx, p)
	}
	if done && !latched(p.cluster) {
		return c.latch(ctx, p, etcdv1alpha2.ReasonSpecChanged, "adopting new spec after previous target reached")
	}
	result, err := c.step(ctx, p)
	if apierrors.IsConflict(err) {
		return c.soon(), nil
	}
	return result, err
}

// step moves the cluster towards the latched target.
func (c clusters) step(ctx context.Context, p *picture) (ctrl.Result, error) {
	if p.cluster.Status.ClusterID == "" && p.desired() > 0 {
		if seed := p.seed(); seed == nil || seed.Spec.InitialCluster == "" {
			return c.bootstrap(ctx, p)
		}
		return c.discover(ctx, p)
	}
	switch {
	case p.deleting:
		return c.soon(), nil
	case pending(p) != nil:
		return c.grow(ctx, p)
	case len(p.running) < p.desired():
		return c.grow(ctx, p)
	case len(p.running) > p.desired():
		return c.shrink(ctx, p)
	}
	switch {
	case p.desired() > 0 && p.ready() == 0 && waking(p):
		return c.soon(), nil
	case p.desired() > 0 && p.ready() > 0 && c.promote(ctx, p): // nobody could be asked while none is ready
		return c.soon(), nil // the status is not refreshed while a member is being added
	}
	return c.report(ctx, p)
}

// waking tells that a member does not know yet that it is no longer parked: its loss is not told before.
func waking(p *picture) bool {
	for i := range p.running {
		ready := meta.FindStatusCondition(p.running[i].Status.Conditions, etcdv1alpha2.ConditionReady)
		if ready != nil && ready.Reason == etcdv1alpha2.ReasonPaused {
			return true
		}
	}
	return false
}

func (c clusters) look(ctx context.Context, key client.ObjectKey) (*picture, error) {
	cluster := &etcdv1alpha2.EtcdCluster{}
	if err := c.client.Get(ctx, key, cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	list := &etcdv1alpha2.EtcdMemberList{}
	if err := c.client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: key.Name}); err != nil {
		return nil, err
	}
	p := &picture{cluster: cluster, before: cluster.DeepCopy()}
	for _, m := range byAge(list.Items) {
		switch {
		case !m.DeletionTimestamp.IsZero():
			p.deleting = true
		case !metav1.IsControlledBy(&m, cluster):
			return nil, fmt.Errorf("member %s belongs to an earlier cluster of this name", m.Name)
		case m.Spec.Dormant:
			p.dormant = m.DeepCopy()
		default:
			p.running = append(p.running, m)
		}
	}
	return p, nil
}

func (c clusters) ensureServices(ctx context.Context, cluster *etcdv1alpha2.EtcdCluster) error {
	if err := c.createOwned(ctx, cluster, headlessService(cluster)); err != nil || c.opts.Mutant == NoClientService {
		return err
	}
	return c.createOwned(ctx, cluster, clientService(cluster))
}

// createOwned creates an object unless one of its name exists.
func (o *Operator) createOwned(ctx context.Context, owner, child client.Object) error {
	if child.GetName() != "" {
		there, ok := child.DeepCopyObject().(client.Object)
		if ok && o.client.Get(ctx, client.ObjectKeyFromObject(child), there) == nil {
			return nil
		}
	}
	if err := controllerutil.SetControllerReference(owner, child, o.scheme); err != nil {
		return err
	}
	err := o.client.Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// latch takes the spec as the target. Later edits wait until it is reached or the deadline has passed.
func (c clusters) latch(ctx context.Context, p *picture, reason, message string) (ctrl.Result, error) {
	cluster := p.cluster
	cluster.Status.Observed = observe(cluster.Spec)
	limit := time.Duration(ptr.Deref(cluster.Spec.ProgressDeadlineSeconds, defaultDeadline)) * time.Second
	cluster.Status.ProgressDeadline = ptr.To(metav1.NewTime(time.Now().Add(limit)))
	setCondition(cluster, etcdv1alpha2.ConditionProgressing, true, reason, message)
	if err := c.save(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

// giveUp is final before the first discovery. After it, a new spec is another try.
func (c clusters) giveUp(ctx context.Context, p *picture) (ctrl.Result, error) {
	if p.cluster.Status.ClusterID != "" && !latched(p.cluster) {
		return c.latch(ctx, p, "RetryAfterDeadline", "adopting updated spec after previous deadline")
	}
	reason := etcdv1alpha2.ReasonDeadlineExceeded
	hint, fact := "deadline exceeded; edit spec to retry, or delete the cluster", "could not reach the target within deadline"
	if p.cluster.Status.ClusterID == "" {
		reason = etcdv1alpha2.ReasonBootstrapFailed
		hint = "bootstrap deadline exceeded; delete the cluster and recreate to recover"
		fact = fmt.Sprintf("could not bootstrap %d-member cluster within deadline", p.desired())
	}
	setCondition(p.cluster, etcdv1alpha2.ConditionProgressing, false, reason, hint)
	setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, false, reason, fact)
	return ctrl.Result{}, c.save(ctx, p)
}

// save writes the status if it has changed.
func (c clusters) save(ctx context.Context, p *picture) error {
	p.cluster.Status.Selector = etcdv1alpha2.LabelCluster + "=" + p.cluster.Name
	data, err := client.MergeFrom(p.before).Data(p.cluster)
	if err != nil || string(data) == "{}" {
		return err
	}
	return c.client.Status().Patch(ctx, p.cluster, client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{}))
}
