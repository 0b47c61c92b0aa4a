package restorejob

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/status"
)

// +kubebuilder:rbac:groups=apps,resources=deployments;replicasets,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create

// The record has to fit a ConfigMap, even with names as long as names get.
const (
	maxConsumers = 400
	maxTroubles  = 100
)

// apiServers finds the Pods of a control plane's API server: those that its Deployment controls, directly or through a ReplicaSet. Labels are anybody's to
// set, so they only narrow the search.
func (r *Reconciler) apiServers(ctx context.Context, namespace, name string, owner types.UID) ([]corev1.Pod, error) {
	d := &appsv1.Deployment{}
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, d)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if c := metav1.GetControllerOf(d); c == nil || c.Kind != "TenantControlPlane" || (owner != "" && c.UID != owner) {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("deployment %s/%s: spec.selector: %w", namespace, name, err)
	}
	list := &corev1.PodList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list Pods of %s/%s: %w", namespace, name, err)
	}
	sets := map[types.UID]bool{d.UID: true}
	var pods []corev1.Pod
	for i := range list.Items {
		c := metav1.GetControllerOf(&list.Items[i])
		if c == nil {
			continue
		}
		mine, known := sets[c.UID]
		if !known && c.Kind == "ReplicaSet" {
			if mine, err = r.controls(ctx, namespace, d.UID, c); err != nil {
				return nil, err
			}
			sets[c.UID] = mine
		}
		if mine {
			pods = append(pods, list.Items[i])
		}
	}
	return pods, nil
}

// controls tells whether a Deployment controls the ReplicaSet that a Pod names.
func (r *Reconciler) controls(ctx context.Context, namespace string, deployment types.UID, set *metav1.OwnerReference) (bool, error) {
	rs := &metav1.PartialObjectMetadata{}
	rs.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: set.Name}, rs)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	c := metav1.GetControllerOf(rs)
	return rs.UID == set.UID && c != nil && c.UID == deployment, nil
}

// listConsumers records the Pods of all control planes on the restored etcd. Those that come later have never seen the former one.
func (r *Reconciler) listConsumers(ctx context.Context, w *world) error {
	consumers := &record.Consumers{StartedAt: metav1.NewTime(w.seen.Now)}
	_, users, err := r.controlPlanes(ctx, w)
	if err != nil {
		consumers.Trouble = append(consumers.Trouble, bound(err.Error()))
	}
	for i := range users {
		pods, err := r.apiServers(ctx, users[i].Namespace, users[i].Name, users[i].UID)
		if err != nil && len(consumers.Trouble) < maxTroubles {
			consumers.Trouble = append(consumers.Trouble, bound(fmt.Sprintf("%s/%s: %v", users[i].Namespace, users[i].Name, err)))
		}
		for j := range pods {
			if len(consumers.Pods) == maxConsumers {
				consumers.LeftOut++
				continue
			}
			consumers.Pods = append(consumers.Pods, record.ConsumerPod{
				Namespace: pods[j].Namespace, ControlPlane: users[i].Name, Name: pods[j].Name, UID: pods[j].UID,
			})
		}
	}
	w.record.Consumers = consumers
	return r.Records.Save(ctx, w.record)
}

// observeConsumers looks at the Pods of the control planes that are being restarted.
func (r *Reconciler) observeConsumers(ctx context.Context, w *world) error {
	rec := w.record
	if rec == nil || rec.Consumers == nil || terminal(w.seen) || !w.seen.restarting() {
		return nil
	}
	f := &w.seen.Consumers
	f.Listed = true
	look := func(namespace, plane string) ([]podNow, error) {
		pods, err := r.apiServers(ctx, namespace, plane, "")
		now := make([]podNow, 0, len(pods))
		for i := range pods {
			now = append(now, podNow{UID: pods[i].UID, Ready: podReady(&pods[i]), Going: !pods[i].DeletionTimestamp.IsZero()})
		}
		return now, err
	}
	step := advance(rec.Consumers, look, w.seen.Now)
	w.consumers = step.consumers
	f.Changed, f.Next, f.Waiting = step.changed, step.next, bound(step.waiting)
	count := restorereport.Count(rec.Consumers)
	f.Told = w.report == nil || count.Empty() || w.report.Annotations[backupsv1alpha1.AnnotationConsumers] == count.Mark()
	return nil
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r *Reconciler) noteConsumers(ctx context.Context, w *world) error {
	w.record.Consumers = w.consumers
	return r.Records.Save(ctx, w.record)
}

// evict asks for the end of one Pod, of exactly that UID, so that a repeated request cannot hit its replacement. A PodDisruptionBudget that says no is asked
// again later. The success is not recorded here: the next look finds the Pod going or gone.
func (r *Reconciler) evict(ctx context.Context, w *world) error {
	i := nextConsumer(w.record.Consumers)
	if i < 0 {
		return nil
	}
	p := &w.record.Consumers.Pods[i]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	uid := p.UID
	err := r.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	now := metav1.NewTime(w.seen.Now)
	p.TriedAt, p.Message = &now, bound(err.Error())
	if p.Since == nil {
		p.Since = &now
	}
	return r.Records.Save(ctx, w.record)
}

// consumersCondition shows the restart of the API servers, which is no part of the restore's own success.
func (w *world) consumersCondition(c status.Conditions) {
	o := w.seen.Record.Outcome
	if o == nil || !o.returned() || w.seen.Record.DryRun {
		return
	}
	kind := backupsv1alpha1.ConditionConsumersRestarted
	if w.seen.Record.KeepConsumers {
		c.Set(kind, metav1.ConditionFalse, backupsv1alpha1.ReasonConsumersDeclined, "spec.options.%s is false: restart the API servers that use this etcd by hand", optionRestartConsumers)
		return
	}
	if w.record.Consumers == nil {
		return
	}
	count := restorereport.Count(w.record.Consumers)
	if count.Empty() {
		return
	}
	switch {
	case count.Clean():
		c.Set(kind, metav1.ConditionTrue, backupsv1alpha1.ReasonConsumersRestarted, "Pods of API servers of control planes: %s", count.Mark())
	case count.Done() || !w.seen.restarting():
		c.Set(kind, metav1.ConditionFalse, backupsv1alpha1.ReasonConsumersNotRestarted, "Pods of API servers of control planes: %s%s", count.Mark(), firstTrouble(count))
	default:
		c.Set(kind, metav1.ConditionFalse, backupsv1alpha1.ReasonRestartingConsumers, "Pods of API servers of control planes: %s", count.Mark())
	}
}

func firstTrouble(c restorereport.Consumers) string {
	text := ""
	if len(c.Failed.Names) > 0 {
		text += "; " + c.Failed.Names[0]
	}
	if len(c.Trouble) > 0 {
		text += "; " + c.Trouble[0]
	}
	return text
}

const (
	// evictionRetry is the time between two requests that a PodDisruptionBudget refuses.
	evictionRetry = 5 * time.Second
	// consumerPatience is how long one Pod may take: its eviction may be refused, or its replacement stay unready, for that long each.
	consumerPatience = 3 * time.Minute
	// consumersLimit ends the restart as a whole.
	consumersLimit = time.Hour
)
