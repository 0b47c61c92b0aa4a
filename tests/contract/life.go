package contract

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func lifeFacts() []Fact {
	return []Fact{
		{"learners-one-at-a-time", "Members beyond the seed join as learners, one at a time; the cluster becomes whole; each condition has its own observedGeneration.", learnersOneAtATime},
		{"available-before-ready", "Available=True/ClusterDiscovered appears when the seed is discovered, at no ready member.", availableBeforeReady},
		{"ready-count-is-stale", "readyMembers is not refreshed while a member is being added.", readyCountIsStale},
		{"bootstrap-failed-is-final", "A seed not discovered within progressDeadlineSeconds is never adopted, and no edit helps.", bootstrapFailedIsFinal},
		{"deadline-waits-for-edit", "After bootstrap the deadline gives DeadlineExceeded, and a spec edit is another try.", deadlineWaitsForEdit},
		{"scale-down-takes-newest", "Scaling down removes the newest member.", scaleDownTakesNewest},
		{"park-keeps-volume", "replicas 0 parks: the Pod goes, PVC and member stay, and waking resumes the same cluster and member ID.", parkKeepsVolume},
		{"parked-never-bootstraps", "A cluster created with replicas 0 is never bootstrapped.", parkedNeverBootstraps},
		{"delete-cascades", "Deleting the EtcdCluster takes members, Pods, PVCs, Services and budget with it.", deleteCascades},
	}
}

// follow watches one kind in the namespace and hands each state to see until it says stop or the lab's patience ends.
func (l *lab) follow(ctx context.Context, list client.ObjectList, see func(client.Object) (stop bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	w, err := l.Client.Watch(ctx, list, client.InNamespace(l.ns))
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		obj, ok := e.Object.(client.Object)
		if !ok {
			return apierrors.FromObject(e.Object)
		}
		if stop, err := see(obj); stop || err != nil {
			return err
		}
	}
	return errors.New("nothing more happened within the patience")
}

func learnersOneAtATime(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if err := l.certificates(ctx); err != nil {
			return err
		}
		c := l.cluster(3)
		if err := l.Client.Create(ctx, c); err != nil {
			return err
		}
		voters := map[string]bool{}
		err := l.follow(ctx, &etcdv1alpha2.EtcdMemberList{}, func(o client.Object) (bool, error) {
			m, ok := o.(*etcdv1alpha2.EtcdMember)
			if !ok {
				return false, nil
			}
			voters[m.Name] = m.Status.IsVoter && memberReady(m)
			joining := 0
			for _, voting := range voters {
				if !voting {
					joining++
				}
			}
			if len(voters) > 1 && m.Spec.Bootstrap && !m.Status.IsVoter {
				return false, errors.New("the seed does not vote")
			}
			// A promotion is written to the member after the next one may have been made, so two may look unfinished.
			if joining > 2 {
				return false, fmt.Errorf("%d members join at once", joining)
			}
			return len(voters) == 3 && joining == 0, nil
		})
		if err != nil {
			return err
		}
		if err := l.whole(ctx, c); err != nil {
			return err
		}
		for _, cond := range c.Status.Conditions {
			if cond.ObservedGeneration != c.Generation {
				return fmt.Errorf("condition %s observes generation %d of %d", cond.Type, cond.ObservedGeneration, c.Generation)
			}
		}
		return nil
	})
}

func memberReady(m *etcdv1alpha2.EtcdMember) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, etcdv1alpha2.ConditionReady)
}

func availableBeforeReady(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if err := l.certificates(ctx); err != nil {
			return err
		}
		c := l.cluster(1)
		if err := l.Client.Create(ctx, c); err != nil {
			return err
		}
		return l.follow(ctx, &etcdv1alpha2.EtcdClusterList{}, func(o client.Object) (bool, error) {
			c, ok := o.(*etcdv1alpha2.EtcdCluster)
			if !ok || !meta.IsStatusConditionTrue(c.Status.Conditions, etcdv1alpha2.ConditionAvailable) {
				return false, nil
			}
			if cond := meta.FindStatusCondition(c.Status.Conditions, etcdv1alpha2.ConditionAvailable); cond.Reason != etcdv1alpha2.ReasonClusterDiscovered {
				return false, fmt.Errorf("the first reason of Available=True is %s", cond.Reason)
			}
			if c.Status.ClusterID == "" || c.Status.ReadyMembers != 0 {
				return false, fmt.Errorf("it is Available with cluster ID %q and %d ready members", c.Status.ClusterID, c.Status.ReadyMembers)
			}
			return true, nil
		})
	})
}

func readyCountIsStale(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if err := l.certificates(ctx); err != nil {
			return err
		}
		if err := l.Client.Create(ctx, l.cluster(3)); err != nil {
			return err
		}
		return l.follow(ctx, &etcdv1alpha2.EtcdClusterList{}, func(o client.Object) (bool, error) {
			c, ok := o.(*etcdv1alpha2.EtcdCluster)
			if !ok || c.Status.ReadyMembers == 0 {
				return false, nil
			}
			if c.Status.ReadyMembers == 1 {
				return false, errors.New("readyMembers is 1 while the second member joins")
			}
			return true, nil
		})
	})
}

func bootstrapFailedIsFinal(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.cluster(1)
		c.Spec.ProgressDeadlineSeconds = ptr.To[int32](2)
		if err := l.Client.Create(ctx, c); err != nil {
			return err
		}
		failed := func() error {
			return l.condition(ctx, c, etcdv1alpha2.ConditionAvailable, etcdv1alpha2.ReasonBootstrapFailed)
		}
		if err := l.until(ctx, "BootstrapFailed", failed); err != nil {
			return err
		}
		if err := l.condition(ctx, c, etcdv1alpha2.ConditionProgressing, etcdv1alpha2.ReasonBootstrapFailed); err != nil {
			return err
		}
		// Now the seed can start, and does.
		if err := l.certificates(ctx); err != nil {
			return err
		}
		before := c.DeepCopy()
		c.Spec.ProgressDeadlineSeconds = ptr.To[int32](600)
		c.Spec.Options.SnapshotCount = ptr.To[int64](5000)
		if err := l.Client.Patch(ctx, c, client.MergeFrom(before)); err != nil {
			return err
		}
		if err := l.until(ctx, "the late seed's Pod", func() error { return l.podsReady(ctx, 1) }); err != nil {
			return err
		}
		return l.stays(ctx, "BootstrapFailed", func() error {
			if err := failed(); err != nil {
				return err
			}
			if c.Status.ClusterID != "" {
				return errors.New("the late seed is adopted")
			}
			return nil
		})
	})
}

func (l *lab) condition(ctx context.Context, c *etcdv1alpha2.EtcdCluster, kind, reason string) error {
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
		return err
	}
	cond := meta.FindStatusCondition(c.Status.Conditions, kind)
	if cond == nil || cond.Reason != reason {
		return fmt.Errorf("%s is not %s but %s", kind, reason, describe(cond))
	}
	return nil
}

func (l *lab) podsReady(ctx context.Context, want int) error {
	pods, err := l.memberPods(ctx)
	if err != nil {
		return err
	}
	n := 0
	for i := range pods {
		for _, cond := range pods[i].Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	if n != want {
		return fmt.Errorf("%d of %d member Pods are ready, not %d", n, len(pods), want)
	}
	return nil
}

func deadlineWaitsForEdit(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 1)
		if err != nil {
			return err
		}
		before := c.DeepCopy()
		c.Spec.Version, c.Spec.Replicas, c.Spec.ProgressDeadlineSeconds = "3.6.999", ptr.To[int32](2), ptr.To[int32](5)
		if err := l.Client.Patch(ctx, c, client.MergeFrom(before)); err != nil {
			return err
		}
		exceeded := func() error {
			return l.condition(ctx, c, etcdv1alpha2.ConditionProgressing, etcdv1alpha2.ReasonDeadlineExceeded)
		}
		if err := l.until(ctx, "DeadlineExceeded", exceeded); err != nil {
			return err
		}
		if err := l.stays(ctx, "DeadlineExceeded", exceeded); err != nil {
			return err
		}
		before = c.DeepCopy()
		c.Spec.Replicas, c.Spec.Version, c.Spec.ProgressDeadlineSeconds = ptr.To[int32](1), l.Version, ptr.To[int32](600)
		if err := l.Client.Patch(ctx, c, client.MergeFrom(before)); err != nil {
			return err
		}
		return l.whole(ctx, c)
	})
}

// scale patches replicas and waits until the cluster is settled at the new number.
func (l *lab) scale(ctx context.Context, c *etcdv1alpha2.EtcdCluster, replicas int32) error {
	before := c.DeepCopy()
	c.Spec.Replicas = ptr.To(replicas)
	return l.Client.Patch(ctx, c, client.MergeFrom(before))
}

func scaleDownTakesNewest(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 2)
		if err != nil {
			return err
		}
		ms, err := l.members(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(l.scale(ctx, c, 1), l.whole(ctx, c)); err != nil {
			return err
		}
		left, err := l.members(ctx)
		if err != nil {
			return err
		}
		if len(left) != 1 || left[0].Name != ms[0].Name {
			return fmt.Errorf("%d members are left, and the oldest was %s", len(left), ms[0].Name)
		}
		return l.until(ctx, "the removed member's PVC to go", func() error {
			list := &corev1.PersistentVolumeClaimList{}
			if err := l.Client.List(ctx, list, client.InNamespace(l.ns)); err != nil {
				return err
			}
			if len(list.Items) != 1 {
				return fmt.Errorf("%d PVCs", len(list.Items))
			}
			return nil
		})
	})
}

func parkKeepsVolume(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 1)
		if err != nil {
			return err
		}
		ms, err := l.members(ctx)
		if err != nil {
			return err
		}
		claim := &corev1.PersistentVolumeClaim{}
		key := client.ObjectKey{Namespace: l.ns, Name: "data-" + ms[0].Name}
		if err := errors.Join(l.Client.Get(ctx, key, claim), l.scale(ctx, c, 0)); err != nil {
			return err
		}
		uid, id := claim.UID, c.Status.ClusterID
		err = l.until(ctx, "Paused without a Pod", func() error {
			pods, err := l.memberPods(ctx)
			if err != nil || len(pods) > 0 {
				return fmt.Errorf("%d Pods: %w", len(pods), err)
			}
			return l.condition(ctx, c, etcdv1alpha2.ConditionAvailable, etcdv1alpha2.ReasonPaused)
		})
		if err != nil {
			return err
		}
		if err := errors.Join(l.scale(ctx, c, 1), l.whole(ctx, c), l.Client.Get(ctx, key, claim)); err != nil {
			return err
		}
		again, err := l.members(ctx)
		if err != nil {
			return err
		}
		if len(again) != 1 || again[0].Status.MemberID != ms[0].Status.MemberID || c.Status.ClusterID != id || claim.UID != uid {
			return fmt.Errorf("woke with %d members, member ID %s for %s, cluster ID %s for %s", len(again), again[0].Status.MemberID, ms[0].Status.MemberID, c.Status.ClusterID, id)
		}
		return nil
	})
}

func parkedNeverBootstraps(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.cluster(0)
		if err := errors.Join(l.certificates(ctx), l.Client.Create(ctx, c)); err != nil {
			return err
		}
		if err := l.until(ctx, "Paused", func() error { return l.condition(ctx, c, etcdv1alpha2.ConditionAvailable, etcdv1alpha2.ReasonPaused) }); err != nil {
			return err
		}
		return l.stays(ctx, "a cluster without members", func() error { return l.none(ctx, &etcdv1alpha2.EtcdMemberList{}) })
	})
}

func deleteCascades(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c, err := l.running(ctx, 1)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := l.Client.Delete(ctx, c); err != nil {
			return err
		}
		for _, list := range childLists() {
			if err := l.until(ctx, "children to go", func() error { return l.none(ctx, list) }); err != nil {
				return fmt.Errorf("%s after the deletion: %w", time.Since(began).Round(time.Millisecond), err)
			}
		}
		return nil
	})
}
