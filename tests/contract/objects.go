package contract

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func objectFacts() []Fact {
	return []Fact{
		{"objects", "Names, owners, finalizer, labels, ports and image of what the operator makes for a cluster.", objectsOfACluster},
		{"services", "Services etcd (headless, 2379 and 2380) and etcd-client (ClusterIP, 2379), and a budget for voters only.", servicesOfACluster},
		{"pod-waits-for-secrets", "A member Pod starts as soon as the Secrets that it mounts exist, whatever is in them.", podWaitsForSecrets},
		{"image-of-version", "A version without an image leaves the Pod Pending with an image pull error.", imageOfVersion},
	}
}

func childLists() []client.ObjectList {
	return []client.ObjectList{
		&etcdv1alpha2.EtcdMemberList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{},
	}
}

var memberName = regexp.MustCompile(`^etcd-[a-z0-9]{5}$`)

func objectsOfACluster(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		ms, err := l.members(ctx)
		if err != nil || len(ms) != 1 {
			return fmt.Errorf("%d members: %w", len(ms), err)
		}
		m := ms[0]
		pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
		err = errors.Join(l.Client.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: m.Name}, pod),
			l.Client.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: "data-" + m.Name}, claim))
		if err != nil {
			return err
		}
		return errors.Join(checkMember(&m), checkLabels(&m, m.Name), checkLabels(claim, m.Name), checkPod(pod, &m, l.Version),
			controlledBy(&m, "EtcdCluster", clusterName), controlledBy(pod, "EtcdMember", m.Name), controlledBy(claim, "EtcdMember", m.Name))
	})
}

func checkMember(m *etcdv1alpha2.EtcdMember) error {
	switch {
	case !memberName.MatchString(m.Name):
		return fmt.Errorf("member name %q", m.Name)
	case !slices.Contains(m.Finalizers, etcdv1alpha2.MemberCleanupFinalizer):
		return fmt.Errorf("finalizers %v", m.Finalizers)
	case !m.Spec.Bootstrap || !m.Status.IsVoter:
		return errors.New("the first member is no voting seed")
	case m.Status.MemberID == "" || m.Status.Version == "":
		return fmt.Errorf("member ID %q, version %q", m.Status.MemberID, m.Status.Version)
	}
	return nil
}

func controlledBy(o client.Object, kind, name string) error {
	if owner := metav1.GetControllerOf(o); owner == nil || owner.Kind != kind || owner.Name != name {
		return fmt.Errorf("%s is controlled by %v, not %s %s", o.GetName(), owner, kind, name)
	}
	return nil
}

func checkLabels(o client.Object, member string) error {
	want := map[string]string{
		etcdv1alpha2.LabelName: "etcd", etcdv1alpha2.LabelInstance: clusterName, etcdv1alpha2.LabelManagedBy: "etcd-operator",
		etcdv1alpha2.LabelCluster: clusterName, "contract": "yes",
	}
	if member != "" {
		want[etcdv1alpha2.LabelComponent] = member
	}
	for k, v := range want {
		if o.GetLabels()[k] != v {
			return fmt.Errorf("%s has label %s=%q, not %q", o.GetName(), k, o.GetLabels()[k], v)
		}
	}
	return nil
}

func checkPod(pod *corev1.Pod, m *etcdv1alpha2.EtcdMember, version string) error {
	c := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	switch {
	case ports["client"] != 2379 || ports["peer"] != 2380 || ports["metrics"] != 2381:
		return fmt.Errorf("container ports %v", ports)
	case !strings.HasSuffix(c.Image, ":v"+version):
		return fmt.Errorf("image %q for version %s", c.Image, version)
	case pod.Labels[etcdv1alpha2.LabelRole] != etcdv1alpha2.RoleVoter:
		return errors.New("the voter's Pod has no role label")
	case !slices.Contains(c.Command, "--advertise-client-urls=https://"+m.Name+"."+clusterName+"."+m.Namespace+".svc:2379"):
		return fmt.Errorf("command %v", c.Command)
	}
	return checkLabels(pod, m.Name)
}

func servicesOfACluster(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		headless, clients, budget := &corev1.Service{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}
		for name, o := range map[string]client.Object{clusterName: headless, clusterName + "-client": clients} {
			if err := l.Client.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: name}, o); err != nil {
				return err
			}
		}
		if err := l.until(ctx, "the budget", func() error { return l.Client.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: clusterName}, budget) }); err != nil {
			return err
		}
		switch {
		case headless.Spec.ClusterIP != corev1.ClusterIPNone || !slices.Equal(portsOf(headless), []int32{2379, 2380}):
			return fmt.Errorf("headless Service: %s %v", headless.Spec.ClusterIP, portsOf(headless))
		case clients.Spec.ClusterIP == corev1.ClusterIPNone || !slices.Equal(portsOf(clients), []int32{2379}):
			return fmt.Errorf("client Service: %s %v", clients.Spec.ClusterIP, portsOf(clients))
		case budget.Spec.Selector.MatchLabels[etcdv1alpha2.LabelRole] != etcdv1alpha2.RoleVoter:
			return fmt.Errorf("budget selects %v", budget.Spec.Selector.MatchLabels)
		}
		return errors.Join(checkLabels(headless, ""), checkLabels(clients, ""), checkLabels(budget, ""),
			controlledBy(headless, "EtcdCluster", clusterName), controlledBy(clients, "EtcdCluster", clusterName), controlledBy(budget, "EtcdCluster", clusterName))
	})
}

func portsOf(s *corev1.Service) []int32 {
	var out []int32
	for _, p := range s.Spec.Ports {
		out = append(out, p.Port)
	}
	return out
}

func podWaitsForSecrets(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.cluster(1)
		if err := l.Client.Create(ctx, c); err != nil {
			return err
		}
		waiting := func() error {
			return l.condition(ctx, c, etcdv1alpha2.ConditionProgressing, etcdv1alpha2.ReasonWaitingForSeed)
		}
		if err := l.until(ctx, "WaitingForSeed", waiting); err != nil {
			return err
		}
		if err := l.stays(ctx, "a seed without a Pod", func() error { return l.none(ctx, &corev1.PodList{}) }); err != nil {
			return err
		}
		empty := map[string][]byte{"tls.crt": nil, "tls.key": nil, "ca.crt": nil}
		if err := errors.Join(l.secret(ctx, serverSecret, empty), l.secret(ctx, peerSecret, empty)); err != nil {
			return err
		}
		return l.until(ctx, "a Pod on empty Secrets", func() error {
			pods, err := l.memberPods(ctx)
			if err != nil || len(pods) != 1 {
				return fmt.Errorf("%d Pods: %w", len(pods), err)
			}
			return nil
		})
	})
}

func imageOfVersion(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.cluster(1)
		c.Spec.Version = "3.6.999"
		if err := errors.Join(l.certificates(ctx), l.Client.Create(ctx, c)); err != nil {
			return err
		}
		return l.until(ctx, "an image pull error", func() error {
			pods, err := l.memberPods(ctx)
			if err != nil || len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 {
				return fmt.Errorf("%d Pods: %w", len(pods), err)
			}
			state := pods[0].Status.ContainerStatuses[0].State
			if state.Waiting == nil || state.Waiting.Reason != "ErrImagePull" && state.Waiting.Reason != "ImagePullBackOff" {
				return fmt.Errorf("container state %s", describe(state))
			}
			return nil
		})
	})
}
