package kamaji

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

const (
	// LabelTenant is on the Deployment and the Pods of a tenant's API server, with the control plane's name.
	LabelTenant = "kamaji.clastix.io/name"
	// AnnotationCertificate on a Pod tells the certificate that its API server has loaded, as the checksum in status.storage.certificate.
	AnnotationCertificate = "component.kamaji.clastix.io/datastore-certificate"
)

// apiServer keeps the Deployment of the tenant's name and, since no deployment controller runs, its Pods. They belong to the Deployment directly; the ReplicaSet between them is left out.
func (c *Controller) apiServer(ctx context.Context, tcp *kamajiv1alpha1.TenantControlPlane, certificate string) error {
	replicas := int32(2)
	if r := tcp.Spec.ControlPlane.Deployment.Replicas; r != nil {
		replicas = *r
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tcp.Namespace, Name: tcp.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.client, d, func() error {
		labels := map[string]string{LabelTenant: tcp.Name}
		d.Labels, d.Spec.Replicas = labels, &replicas
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		// Replaced as a whole, so what a rollout restart writes here does not last.
		d.Spec.Template.Annotations = map[string]string{AnnotationCertificate: certificate}
		image := "registry.k8s.io/kube-apiserver:" + tcp.Spec.Kubernetes.Version
		if spec := &d.Spec.Template.Spec; len(spec.Containers) != 1 || spec.Containers[0].Image != image {
			spec.Containers = []corev1.Container{{Name: "kube-apiserver", Image: image}}
		}
		return controllerutil.SetControllerReference(tcp, d, c.client.Scheme())
	})
	if err != nil {
		return fmt.Errorf("deployment of the API server: %w", err)
	}
	return c.pods(ctx, d, int(replicas))
}

// pods takes one step towards the wanted number of Pods, all on the template's certificate; the event of that step brings the next.
func (c *Controller) pods(ctx context.Context, d *appsv1.Deployment, want int) error {
	list := &corev1.PodList{}
	if err := c.client.List(ctx, list, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return err
	}
	var live []*corev1.Pod
	ready := int32(0)
	for i := range list.Items {
		p := &list.Items[i]
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		live = append(live, p)
		if p.Status.Phase == corev1.PodRunning {
			ready++
		} else if err := c.markRunning(ctx, p); err != nil {
			return err
		}
	}
	switch {
	case len(live) < want:
		return c.startPod(ctx, d)
	case len(live) > want:
		return client.IgnoreNotFound(c.client.Delete(ctx, live[0]))
	}
	if stale := c.staleOf(d, live); stale != nil && int(ready) == want {
		return client.IgnoreNotFound(c.client.Delete(ctx, stale))
	}
	before := d.DeepCopy()
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = d.Generation, int32(len(live)), ready, ready
	d.Status.UpdatedReplicas = int32(len(live))
	return c.client.Status().Patch(ctx, d, client.MergeFrom(before))
}

// staleOf finds a Pod to roll. Older versions leave API servers on the certificate they have loaded.
func (c *Controller) staleOf(d *appsv1.Deployment, live []*corev1.Pod) *corev1.Pod {
	if c.opts.Mode == Older {
		return nil
	}
	for _, p := range live {
		if p.Annotations[AnnotationCertificate] != d.Spec.Template.Annotations[AnnotationCertificate] {
			return p
		}
	}
	return nil
}

func (c *Controller) startPod(ctx context.Context, d *appsv1.Deployment) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, GenerateName: d.Name + "-", Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations,
	}, Spec: d.Spec.Template.Spec}
	if err := controllerutil.SetControllerReference(d, p, c.client.Scheme()); err != nil {
		return err
	}
	if err := c.client.Create(ctx, p); err != nil {
		return fmt.Errorf("pod of the API server: %w", err)
	}
	c.opts.Log("Pod %s/%s stands for an API server", p.Namespace, p.Name)
	return nil
}

func (c *Controller) markRunning(ctx context.Context, p *corev1.Pod) error {
	before := p.DeepCopy()
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	err := c.client.Status().Patch(ctx, p, client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func tenantOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[LabelTenant]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}
