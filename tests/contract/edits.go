package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func editFacts() []Fact {
	return []Fact{
		{"edit-reaches-nobody", "An edit of options or size is latched and reported as Reconciled, and touches neither a running member nor its PVC; a member made later has it.", editReachesNobody},
		{"member-roll", "Patching the member and deleting its Pod rebuilds the Pod from the member's spec, on the same PVC, with the same member ID.", memberRoll},
		{"pod-alone-keeps-template", "Deleting only the Pod rebuilds the old template.", podAloneKeepsTemplate},
		{"member-deletion-replaces", "Deleting an EtcdMember removes it from etcd, and a new one joins from the cluster's spec.", memberDeletionReplaces},
		{"crashing-member-is-replaced", "A Pod whose etcd restarts five times is replaced together with its PVC while the others have quorum.", crashingMemberIsReplaced},
	}
}

func quantity(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }

const snapshotFlag = "--snapshot-count=%d"

// podUIDs maps member names to their Pods' UIDs.
func (l *lab) podUIDs(ctx context.Context) (map[string]types.UID, error) {
	pods, err := l.memberPods(ctx)
	out := map[string]types.UID{}
	for _, p := range pods {
		out[p.Name] = p.UID
	}
	return out, err
}

func editReachesNobody(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 1)
		if err != nil {
			return err
		}
		before, err := l.podUIDs(ctx)
		if err != nil {
			return err
		}
		size := c.Spec.Storage.Size
		old := c.DeepCopy()
		c.Spec.Options.SnapshotCount = ptr.To[int64](12345)
		c.Spec.Storage.Size.Add(size)
		if err := errors.Join(l.Client.Patch(ctx, c, client.MergeFrom(old)), l.whole(ctx, c)); err != nil {
			return err
		}
		if got := c.Status.Observed.Options.SnapshotCount; got == nil || *got != 12345 {
			return fmt.Errorf("latched options %v", c.Status.Observed.Options)
		}
		err = l.stays(ctx, "the old Pod with its PVC", func() error {
			now, err := l.podUIDs(ctx)
			for name, uid := range before {
				if now[name] != uid {
					return fmt.Errorf("the Pod of %s is another one", name)
				}
			}
			return errors.Join(err, l.claimsAsk(ctx, size))
		})
		if err != nil {
			return err
		}
		if err := errors.Join(l.scale(ctx, c, 2), l.whole(ctx, c)); err != nil {
			return err
		}
		return l.flagOf(ctx, func(name string) bool { return before[name] == "" }, 12345)
	})
}

// claimsAsk checks the size that each PVC of the cluster asks for.
func (l *lab) claimsAsk(ctx context.Context, size resource.Quantity) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := l.Client.List(ctx, claims, client.InNamespace(l.ns), client.MatchingLabels{etcdv1alpha2.LabelCluster: clusterName}); err != nil {
		return err
	}
	if len(claims.Items) == 0 {
		return errors.New("no PVC is there")
	}
	for _, c := range claims.Items {
		if got := c.Spec.Resources.Requests.Storage(); got.Cmp(size) != 0 {
			return fmt.Errorf("PVC %s asks for %s, not %s", c.Name, got, size.String())
		}
	}
	return nil
}

// flagOf checks the snapshot count in the command of the chosen member Pods.
func (l *lab) flagOf(ctx context.Context, chosen func(name string) bool, count int) error {
	pods, err := l.memberPods(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, p := range pods {
		if !chosen(p.Name) {
			continue
		}
		n++
		if !slices.Contains(p.Spec.Containers[0].Command, fmt.Sprintf(snapshotFlag, count)) {
			return fmt.Errorf("the Pod %s runs %v", p.Name, p.Spec.Containers[0].Command)
		}
	}
	if n == 0 {
		return errors.New("no such Pod")
	}
	return nil
}

// rebuilt deletes the Pod of a member and waits for a ready successor.
func (l *lab) rebuilt(ctx context.Context, name string) error {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: l.ns, Name: name}
	if err := l.Client.Get(ctx, key, pod); err != nil {
		return err
	}
	uid := pod.UID
	if err := l.Client.Delete(ctx, pod); err != nil {
		return err
	}
	return l.until(ctx, "the rebuilt Pod", func() error {
		if err := l.Client.Get(ctx, key, pod); err != nil {
			return err
		}
		if pod.UID == uid {
			return errors.New("the old Pod is still there")
		}
		m := &etcdv1alpha2.EtcdMember{}
		if err := l.Client.Get(ctx, key, m); err != nil {
			return err
		}
		if m.Status.PodUID != string(pod.UID) || !memberReady(m) {
			return fmt.Errorf("member status %s", describe(m.Status.Conditions))
		}
		return nil
	})
}

func (l *lab) theMember(ctx context.Context) (*etcdv1alpha2.EtcdMember, error) {
	ms, err := l.members(ctx)
	if err != nil || len(ms) != 1 {
		return nil, fmt.Errorf("%d members: %w", len(ms), err)
	}
	return &ms[0], nil
}

func memberRoll(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		m, err := l.theMember(ctx)
		if err != nil {
			return err
		}
		claim, key := &corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: l.ns, Name: "data-" + m.Name}
		if err := errors.Join(l.put(ctx, "a", "1"), l.Client.Get(ctx, key, claim)); err != nil {
			return err
		}
		uid, id := claim.UID, m.Status.MemberID
		old := m.DeepCopy()
		m.Spec.Options.SnapshotCount = ptr.To[int64](23456)
		if err := errors.Join(l.Client.Patch(ctx, m, client.MergeFrom(old)), l.rebuilt(ctx, m.Name), l.Client.Get(ctx, key, claim)); err != nil {
			return err
		}
		if m, err = l.theMember(ctx); err != nil {
			return err
		}
		if m.Status.MemberID != id || claim.UID != uid {
			return fmt.Errorf("member ID %s for %s", m.Status.MemberID, id)
		}
		err = l.ask(ctx, l.serviceHost(), func(ctx context.Context, c *clientv3.Client) error {
			got, err := c.Get(ctx, "a")
			if err == nil && len(got.Kvs) != 1 {
				err = errors.New("the key is gone")
			}
			return err
		})
		return errors.Join(err, l.flagOf(ctx, func(string) bool { return true }, 23456))
	})
}

func podAloneKeepsTemplate(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 1)
		if err != nil {
			return err
		}
		size := c.Spec.Storage.Size
		old := c.DeepCopy()
		c.Spec.Options.SnapshotCount = ptr.To[int64](12345)
		c.Spec.Storage.Size.Add(size)
		if err := errors.Join(l.Client.Patch(ctx, c, client.MergeFrom(old)), l.whole(ctx, c)); err != nil {
			return err
		}
		m, err := l.theMember(ctx)
		if err != nil {
			return err
		}
		return errors.Join(l.rebuilt(ctx, m.Name), l.flagOf(ctx, func(string) bool { return true }, 10000))
	})
}

func memberDeletionReplaces(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 3)
		if err != nil {
			return err
		}
		ms, err := l.members(ctx)
		if err != nil {
			return err
		}
		if err := l.Client.Delete(ctx, &ms[2]); err != nil {
			return err
		}
		return l.replaced(ctx, c, ms[2].Name, ms[2].Status.MemberID)
	})
}

// replaced waits until a member is gone, from etcd too, and the cluster is whole without it.
func (l *lab) replaced(ctx context.Context, c *etcdv1alpha2.EtcdCluster, name, id string) error {
	err := l.within(ctx, 3*l.Patience, "another member in place of "+name, func() error {
		ms, err := l.members(ctx)
		if err != nil {
			return err
		}
		if len(ms) != 3 || slices.ContainsFunc(ms, func(m etcdv1alpha2.EtcdMember) bool { return m.Name == name || !m.Status.IsVoter || !memberReady(&m) }) {
			return fmt.Errorf("%d members, not all ready and new", len(ms))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := l.whole(ctx, c); err != nil {
		return err
	}
	return l.ask(ctx, l.serviceHost(), func(ctx context.Context, e *clientv3.Client) error {
		list, err := e.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if m.Name == name || fmt.Sprintf("%x", m.ID) == id {
				return fmt.Errorf("etcd still lists %s", name)
			}
		}
		return nil
	})
}

func crashingMemberIsReplaced(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 3)
		if err != nil {
			return err
		}
		ms, err := l.members(ctx)
		if err != nil {
			return err
		}
		m := &ms[2]
		old := m.DeepCopy()
		// The schema lets a duration pass that etcd cannot hold: it ends at once.
		m.Spec.Options.AutoCompactionMode, m.Spec.Options.AutoCompactionRetention = "periodic", "9999999999h"
		if err := l.Client.Patch(ctx, m, client.MergeFrom(old)); err != nil {
			return err
		}
		pod := &corev1.Pod{}
		key := client.ObjectKeyFromObject(m)
		if err := errors.Join(l.Client.Get(ctx, key, pod), l.Client.Delete(ctx, pod)); err != nil {
			return err
		}
		return l.replaced(ctx, c, m.Name, m.Status.MemberID)
	})
}
