package etcdoperator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/node"
)

// byAge sorts members, the oldest first; names break ties, as creation times have whole seconds.
func byAge(ms []etcdv1alpha2.EtcdMember) []etcdv1alpha2.EtcdMember {
	slices.SortFunc(ms, func(a, b etcdv1alpha2.EtcdMember) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return ms
}

// bootstrap creates the seed. Its name comes from the API server, so what depends on the name follows in a second write.
func (c clusters) bootstrap(ctx context.Context, p *picture) (ctrl.Result, error) {
	seed := p.seed()
	if seed == nil {
		seed = newMember(p.cluster, true)
		if err := c.create(ctx, p.cluster, seed); err != nil {
			return ctrl.Result{}, err
		}
		before := seed.DeepCopy()
		seed.Status.IsVoter = true
		if err := c.client.Status().Patch(ctx, seed, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	return c.soon(), c.complete(ctx, seed, seed.Name+"="+peerURL(seed))
}

func (c clusters) create(ctx context.Context, cluster *etcdv1alpha2.EtcdCluster, m *etcdv1alpha2.EtcdMember) error {
	if err := controllerutil.SetControllerReference(cluster, m, c.scheme); err != nil {
		return err
	}
	return c.client.Create(ctx, m)
}

// complete gives a member what its Pod needs to start.
func (c clusters) complete(ctx context.Context, m *etcdv1alpha2.EtcdMember, initialCluster string) error {
	before := m.DeepCopy()
	m.Spec.InitialCluster = initialCluster
	m.Labels = memberLabels(m.Spec.ClusterName, m.Name, m.Spec.AdditionalMetadata)
	return c.client.Patch(ctx, m, client.MergeFrom(before))
}

// discover waits for the seed to answer. Available turns True here, before any member is ready.
func (c clusters) discover(ctx context.Context, p *picture) (ctrl.Result, error) {
	seed := p.seed()
	if seed.Status.PodName == "" {
		setCondition(p.cluster, etcdv1alpha2.ConditionProgressing, true, etcdv1alpha2.ReasonWaitingForSeed, fmt.Sprintf("seed member %q has no Pod yet", seed.Name))
		return c.soon(), c.save(ctx, p)
	}
	if meta.FindStatusCondition(p.cluster.Status.Conditions, etcdv1alpha2.ConditionAvailable) == nil {
		return c.unreachable(ctx, p) // a Pod just made does not answer yet
	}
	var id uint64
	err := c.withEtcd(ctx, p.cluster, []etcdv1alpha2.EtcdMember{*seed}, func(ctx context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		if len(list.Members) != 1 || memberOf(list.Members, seed) == nil {
			return errors.New("the seed is not alone")
		}
		id = list.Header.ClusterId
		return nil
	})
	mutant := c.opts.Mutant == AvailableOnlyWhenWhole
	if err != nil {
		return c.unreachable(ctx, p)
	}
	p.cluster.Status.ClusterID = fmt.Sprintf("%016x", id)
	if !mutant {
		setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, true, etcdv1alpha2.ReasonClusterDiscovered, fmt.Sprintf("etcd cluster %016x discovered", id))
	}
	return c.soon(), c.save(ctx, p)
}

// unreachable says what the real operator says after its five seconds, whether a connection is refused or endless.
func (c clusters) unreachable(ctx context.Context, p *picture) (ctrl.Result, error) {
	setCondition(p.cluster, etcdv1alpha2.ConditionAvailable, false, etcdv1alpha2.ReasonClusterUnreachable, "MemberList failed: context deadline exceeded")
	return c.soon(), c.save(ctx, p)
}

// pending is a member that etcd may not know yet: its creator died between two writes.
func pending(p *picture) *etcdv1alpha2.EtcdMember {
	for i := range p.running {
		if m := &p.running[i]; !m.Spec.Bootstrap && m.Spec.InitialCluster == "" {
			return m
		}
	}
	return nil
}

// grow adds one member at a time, as a learner, when all others are ready and vote. The cluster's status is not refreshed meanwhile.
func (c clusters) grow(ctx context.Context, p *picture) (ctrl.Result, error) {
	if p.dormant != nil {
		before := p.dormant.DeepCopy()
		p.dormant.Spec.Dormant = false
		return c.soon(), c.client.Patch(ctx, p.dormant, client.MergeFrom(before))
	}
	half := pending(p)
	if half == nil && (p.ready() < len(p.running) || c.mayNotGrow(p)) {
		return c.soon(), nil
	}
	known := slices.DeleteFunc(slices.Clone(p.running), func(m etcdv1alpha2.EtcdMember) bool { return half != nil && m.Name == half.Name })
	err := c.withEtcd(ctx, p.cluster, known, func(call context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(call)
		if err != nil {
			return err
		}
		if half == nil {
			if learner := learnerIn(list.Members); learner != nil {
				_, err := etcd.MemberPromote(call, learner.ID)
				return errors.Join(err, errLater)
			}
			half = newMember(p.cluster, false)
			if err := c.create(ctx, p.cluster, half); err != nil {
				return err
			}
		}
		return c.join(ctx, call, etcd, list.Members, half)
	})
	if err != nil {
		return c.soon(), nil //nolint:nilerr // tried again at the next look, as the real one does
	}
	return c.soon(), nil
}

// errLater ends a pass after a promotion: the next pass goes on.
var errLater = errors.New("promoted, more in the next pass")

func (c clusters) mayNotGrow(p *picture) bool {
	limit := c.Faults.now().NoMembersBeyond
	if limit == nil {
		return false
	}
	n := limit(p.cluster.Namespace, p.cluster.Name)
	return n >= 0 && len(p.running) >= n
}

// join announces a member to etcd unless it is known, and completes it with etcd's own view of the cluster.
func (c clusters) join(ctx, call context.Context, etcd *clientv3.Client, known []*etcdserverpb.Member, m *etcdv1alpha2.EtcdMember) error {
	if memberOf(known, m) == nil {
		added, err := etcd.MemberAddAsLearner(call, []string{node.ToLoopback(peerURL(m))})
		if err != nil {
			return err
		}
		known = added.Members
	}
	var parts []string
	for _, e := range known {
		announced := node.FromLoopback(e.PeerURLs[0])
		u, err := url.Parse(announced)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(u.Hostname(), ".")
		parts = append(parts, name+"="+announced)
	}
	slices.Sort(parts)
	return c.complete(ctx, m, strings.Join(parts, ","))
}

// shrink removes the newest member. The last one is not removed but parked.
func (c clusters) shrink(ctx context.Context, p *picture) (ctrl.Result, error) {
	victim := &p.running[len(p.running)-1]
	if p.desired() == 0 && len(p.running) == 1 {
		before := victim.DeepCopy()
		victim.Spec.Dormant = true
		return c.soon(), c.client.Patch(ctx, victim, client.MergeFrom(before))
	}
	return c.soon(), client.IgnoreNotFound(c.client.Delete(ctx, victim))
}

// promote turns a learner that is in sync into a voter; true means that something is still to come.
func (c clusters) promote(ctx context.Context, p *picture) bool {
	if len(p.running) == 0 {
		return false
	}
	learner := false
	_ = c.withEtcd(ctx, p.cluster, p.running, func(call context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(call)
		if err != nil {
			return err
		}
		if err := c.setVoters(ctx, p, list.Members); err != nil {
			return err
		}
		if l := learnerIn(list.Members); l != nil {
			learner = true
			_, err = etcd.MemberPromote(call, l.ID)
		}
		return err
	})
	return learner
}

// setVoters brings etcd's view of who votes to the members' status.
func (c clusters) setVoters(ctx context.Context, p *picture, known []*etcdserverpb.Member) error {
	for i := range p.running {
		m := &p.running[i]
		e := memberOf(known, m)
		if e == nil || m.Status.IsVoter != e.IsLearner {
			continue
		}
		before := m.DeepCopy()
		m.Status.IsVoter = !e.IsLearner
		if err := c.client.Status().Patch(ctx, m, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

func memberOf(known []*etcdserverpb.Member, m *etcdv1alpha2.EtcdMember) *etcdserverpb.Member {
	for _, e := range known {
		if e.Name == m.Name || slices.Contains(e.PeerURLs, node.ToLoopback(peerURL(m))) {
			return e
		}
	}
	return nil
}

func learnerIn(known []*etcdserverpb.Member) *etcdserverpb.Member {
	for _, e := range known {
		if e.IsLearner {
			return e
		}
	}
	return nil
}
