package restorejob

import (
	"context"
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// leftoverKinds are what the operator makes for a cluster, with the kind that controls each. The Pods of snapshot Jobs and the Service that the chart makes
// carry the same label, but have another controller or none.
var leftoverKinds = []struct {
	kind  schema.GroupVersionKind
	owner string
}{
	{etcdv1alpha2.GroupVersion.WithKind("EtcdMember"), "EtcdCluster"},
	{corev1.SchemeGroupVersion.WithKind("Pod"), "EtcdMember"},
	{corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), "EtcdMember"},
	{corev1.SchemeGroupVersion.WithKind("Service"), "EtcdCluster"},
	{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), "EtcdCluster"},
}

// observeRemains lists what is left of the former cluster, between its deletion and the recreation.
func (r *Reconciler) observeRemains(ctx context.Context, w *world) error {
	if w.seen.Record == nil || !w.seen.Record.DeleteIntended || w.seen.ours() {
		return nil
	}
	for _, k := range leftoverKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(k.kind.GroupVersion().WithKind(k.kind.Kind + "List"))
		err := r.Reader.List(ctx, list, client.InNamespace(w.job.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: w.application()})
		if err != nil {
			return fmt.Errorf("list what is left of kind %s: %w", k.kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if c := metav1.GetControllerOf(o); c != nil && c.Kind == k.owner {
				w.seen.Leftovers = append(w.seen.Leftovers, k.kind.Kind+" "+o.Name+heldBy(o.Finalizers))
			}
		}
	}
	return nil
}

// observeMembers looks at the recreated cluster until it is decided how the restore ends.
func (r *Reconciler) observeMembers(ctx context.Context, w *world) error {
	if !w.seen.ours() || w.seen.Record == nil || w.seen.Record.Outcome != nil {
		return nil
	}
	list := &etcdv1alpha2.EtcdMemberList{}
	err := r.Reader.List(ctx, list, client.InNamespace(w.job.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: w.application()})
	if err != nil {
		return fmt.Errorf("list EtcdMembers: %w", err)
	}
	uids := map[types.UID]bool{}
	for i := range list.Items {
		m := &list.Items[i]
		if c := metav1.GetControllerOf(m); c == nil || c.UID != w.cluster.GetUID() {
			continue
		}
		uids[m.UID] = true
		w.seen.Members = append(w.seen.Members, MemberFacts{
			Name: m.Name, Voter: m.Status.IsVoter, Credentials: credentialsOf(m),
			Ready: m.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(m.Status.Conditions, etcdv1alpha2.ConditionReady),
		})
	}
	sort.Slice(w.seen.Members, func(i, j int) bool { return w.seen.Members[i].Name < w.seen.Members[j].Name })
	if w.seen.complete() || (w.seen.latched() && !w.seen.Job.Serving) || w.seen.Expired() {
		r.ask(ctx, w)
	}
	if w.seen.complete() {
		return nil
	}
	return r.observePods(ctx, w, uids)
}

// credentialsOf names the Secret of the snapshot that a member came out of: spec.restore is never cleared, so each later Pod needs it, too.
func credentialsOf(m *etcdv1alpha2.EtcdMember) string {
	if m.Spec.Restore == nil || m.Spec.Restore.Source.S3 == nil {
		return ""
	}
	return m.Spec.Restore.Source.S3.CredentialsSecretRef.Name
}

func (r *Reconciler) observePods(ctx context.Context, w *world, members map[types.UID]bool) error {
	pods := &corev1.PodList{}
	err := r.Reader.List(ctx, pods, client.InNamespace(w.job.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: w.application()})
	if err != nil {
		return fmt.Errorf("list member Pods: %w", err)
	}
	var troubles []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		if c := metav1.GetControllerOf(pod); c == nil || !members[c.UID] {
			continue
		}
		if trouble := podTrouble(pod); trouble != "" {
			troubles = append(troubles, fmt.Sprintf("Pod %s: %s", pod.Name, trouble))
		}
	}
	w.seen.SeedTrouble = strings.Join(troubles, "; ")
	return nil
}

// podTrouble says what a Pod complains about: the init container that restores the data leaves its last words in its status.
func podTrouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return bound(c.Message)
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if trouble := containerTrouble(&statuses[i]); trouble != "" {
				return fmt.Sprintf("container %s: %s", statuses[i].Name, bound(trouble))
			}
		}
	}
	return ""
}

func containerTrouble(c *corev1.ContainerStatus) string {
	for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode != 0 && !c.Ready {
			return strings.TrimSpace(fmt.Sprintf("exit code %d %s", t.ExitCode, strings.TrimSpace(t.Message)))
		}
	}
	if waiting := c.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" && waiting.Reason != "ContainerCreating" {
		return strings.TrimSpace(waiting.Reason + " " + waiting.Message)
	}
	return ""
}

// bound keeps one complaint from filling the whole message.
func bound(s string) string {
	const most = 400
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
