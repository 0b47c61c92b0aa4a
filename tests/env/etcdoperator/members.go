package etcdoperator

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// crashLimit is the number of restarts after which a member is replaced.
const crashLimit = 5

// members keeps Pod and claim of each EtcdMember.
type members struct{ *Operator }

func (r members) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.Faults.now().Frozen {
		return r.soon(), nil
	}
	m := &etcdv1alpha2.EtcdMember{}
	if err := r.client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !m.DeletionTimestamp.IsZero() {
		return r.remove(ctx, m)
	}
	if !controllerutil.ContainsFinalizer(m, etcdv1alpha2.MemberCleanupFinalizer) {
		before := m.DeepCopy()
		controllerutil.AddFinalizer(m, etcdv1alpha2.MemberCleanupFinalizer)
		return ctrl.Result{}, r.client.Patch(ctx, m, client.MergeFrom(before))
	}
	switch {
	case m.Spec.InitialCluster == "":
		return ctrl.Result{}, nil // its change wakes us
	case m.Spec.Dormant:
		return ctrl.Result{}, r.park(ctx, m)
	}
	return r.run(ctx, m)
}

// run brings up what is missing and reports what is there.
func (r members) run(ctx context.Context, m *etcdv1alpha2.EtcdMember) (ctrl.Result, error) {
	before := m.DeepCopy()
	pod, err := r.pod(ctx, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	if m.Spec.Storage.Medium == etcdv1alpha2.StorageMediumMemory {
		if m.Status.PodUID != "" && (pod == nil || string(pod.UID) != m.Status.PodUID) {
			return ctrl.Result{}, r.client.Delete(ctx, m) // its data went with the Pod
		}
	} else if err := r.createOwned(ctx, m, claim(m)); err != nil {
		return ctrl.Result{}, err
	} else {
		m.Status.PVCName = "data-" + m.Name
	}
	if pod == nil {
		if !r.secretsExist(ctx, m) {
			return r.soon(), nil
		}
		pod = memberPod(m, r.generation())
		if err := controllerutil.SetControllerReference(m, pod, r.scheme); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.client.Create(ctx, pod); err != nil {
			return r.soon(), client.IgnoreAlreadyExists(err)
		}
	}
	if !pod.DeletionTimestamp.IsZero() {
		return r.soon(), nil // the status keeps what it said until the Pod is gone
	}
	if err := r.labelRole(ctx, m, pod); err != nil {
		return ctrl.Result{}, err
	}
	if replaced, err := r.replaceBroken(ctx, m, pod); replaced || err != nil {
		return r.soon(), err
	}
	again := r.report(ctx, m, pod)
	if err := r.client.Status().Patch(ctx, m, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if again {
		return r.soon(), nil
	}
	return ctrl.Result{}, nil
}

// pod is the member's Pod; one of another owner is an error until it is gone.
func (r members) pod(ctx context.Context, m *etcdv1alpha2.EtcdMember) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(m), pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err == nil && !metav1.IsControlledBy(pod, m) {
		err = fmt.Errorf("the Pod %s belongs to somebody else", pod.Name)
	}
	return pod, err
}

func claim(m *etcdv1alpha2.EtcdMember) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: "data-" + m.Name, Labels: memberLabels(m.Spec.ClusterName, m.Name, m.Spec.AdditionalMetadata),
			Annotations: annotations(m.Spec.AdditionalMetadata),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: m.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: m.Spec.Storage.Size}},
		},
	}
}

// secretsExist is all that the operator asks of the Secrets that a Pod mounts.
func (r members) secretsExist(ctx context.Context, m *etcdv1alpha2.EtcdMember) bool {
	tls := tlsOf(m)
	for _, ref := range []*corev1.LocalObjectReference{tls.ClientServerSecretRef, tls.PeerSecretRef} {
		if ref != nil && r.client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, &corev1.Secret{}) != nil {
			return false
		}
	}
	return true
}

func (r members) labelRole(ctx context.Context, m *etcdv1alpha2.EtcdMember, pod *corev1.Pod) error {
	if !m.Status.IsVoter || pod.Labels[etcdv1alpha2.LabelRole] == etcdv1alpha2.RoleVoter {
		return nil
	}
	before := pod.DeepCopy()
	pod.Labels[etcdv1alpha2.LabelRole] = etcdv1alpha2.RoleVoter
	return client.IgnoreNotFound(r.client.Patch(ctx, pod, client.MergeFrom(before)))
}

// replaceBroken gives up a member whose etcd has crashed too often, if the others keep quorum without it. Pod and claim go with it, and the cluster grows anew.
func (r members) replaceBroken(ctx context.Context, m *etcdv1alpha2.EtcdMember, pod *corev1.Pod) (bool, error) {
	if podReady(pod) || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount < crashLimit {
		return false, nil
	}
	list := &etcdv1alpha2.EtcdMemberList{}
	if err := r.client.List(ctx, list, client.InNamespace(m.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: m.Spec.ClusterName}); err != nil {
		return false, err
	}
	others := 0
	for i := range list.Items {
		if list.Items[i].Name != m.Name && ready(&list.Items[i]) && list.Items[i].Status.IsVoter {
			others++
		}
	}
	if others == 0 || others < len(list.Items)/2+1 {
		return false, nil
	}
	return true, client.IgnoreNotFound(r.client.Delete(ctx, m))
}

// report says what the Pod amounts to; true means that more may be known soon without an event.
func (r members) report(ctx context.Context, m *etcdv1alpha2.EtcdMember, pod *corev1.Pod) bool {
	s := &m.Status
	s.PodName, s.PodUID, s.Replicas = pod.Name, string(pod.UID), 1
	s.Selector = etcdv1alpha2.LabelCluster + "=" + m.Spec.ClusterName + "," + etcdv1alpha2.LabelComponent + "=" + m.Name
	if !podReady(pod) {
		meta.SetStatusCondition(&s.Conditions, condition(m.Generation, etcdv1alpha2.ConditionReady, false, etcdv1alpha2.ReasonPodNotReady, "pod phase: "+string(pod.Status.Phase)))
		return false
	}
	known := r.ask(ctx, m)
	meta.SetStatusCondition(&s.Conditions, condition(m.Generation, etcdv1alpha2.ConditionReady, true, etcdv1alpha2.ReasonPodReady, "etcd member is ready"))
	if s.Version != "" && s.Version != m.Spec.Version {
		meta.SetStatusCondition(&s.Conditions, condition(m.Generation, etcdv1alpha2.ConditionVersionDrifted, true, etcdv1alpha2.ReasonVersionMismatch,
			fmt.Sprintf("running etcd version %q does not match intended spec.version %q", s.Version, m.Spec.Version)))
	} else {
		meta.RemoveStatusCondition(&s.Conditions, etcdv1alpha2.ConditionVersionDrifted)
	}
	return !known
}

// tooEarly keeps the order that slow probes give the real operator: the cluster is discovered before its seed is seen ready, and the last learner votes before it is
// seen ready. A Pod is not held while the operator is down.
func (o *Operator) tooEarly(namespace, pod string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	o.mu.Lock()
	down := o.cancel == nil
	o.mu.Unlock()
	m, c := &etcdv1alpha2.EtcdMember{}, &etcdv1alpha2.EtcdCluster{}
	if down || o.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, m) != nil ||
		o.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: m.Spec.ClusterName}, c) != nil {
		return false
	}
	if m.Spec.Bootstrap {
		return c.Status.ClusterID == "" && !givenUp(c)
	}
	if m.Status.MemberID != "" || c.Status.Observed == nil {
		return false
	}
	if m.Status.IsVoter {
		p := &corev1.Pod{}
		err := o.client.Get(ctx, client.ObjectKeyFromObject(m), p)
		return err == nil && p.Labels[etcdv1alpha2.LabelRole] == ""
	}
	list := &etcdv1alpha2.EtcdMemberList{}
	err := o.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: c.Name})
	return err == nil && len(list.Items) == int(c.Status.Observed.Replicas)
}

func givenUp(c *etcdv1alpha2.EtcdCluster) bool {
	cond := meta.FindStatusCondition(c.Status.Conditions, etcdv1alpha2.ConditionProgressing)
	return cond != nil && cond.Reason == etcdv1alpha2.ReasonBootstrapFailed
}

// ask learns ID and version from the member itself.
func (r members) ask(ctx context.Context, m *etcdv1alpha2.EtcdMember) bool {
	cluster := &etcdv1alpha2.EtcdCluster{}
	if r.client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster) != nil {
		return false
	}
	return r.withEtcd(ctx, cluster, []etcdv1alpha2.EtcdMember{*m}, func(ctx context.Context, etcd *clientv3.Client) error {
		status, err := etcd.Status(ctx, clientURL(m))
		if err != nil {
			return err
		}
		m.Status.MemberID, m.Status.Version = strconv.FormatUint(status.Header.MemberId, 16), status.Version
		return nil
	}) == nil
}

// park deletes the Pod and keeps everything else.
func (r members) park(ctx context.Context, m *etcdv1alpha2.EtcdMember) error {
	pod, err := r.pod(ctx, m)
	if err != nil {
		return err
	}
	if pod != nil && pod.DeletionTimestamp.IsZero() {
		if err := r.client.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	before := m.DeepCopy()
	m.Status.PodName, m.Status.PodUID = "", ""
	meta.SetStatusCondition(&m.Status.Conditions, condition(m.Generation, etcdv1alpha2.ConditionReady, false, etcdv1alpha2.ReasonPaused,
		"member is paused (spec.dormant=true); pod deleted, PVC preserved"))
	return r.client.Status().Patch(ctx, m, client.MergeFrom(before))
}

// remove takes the member out of etcd before its object goes, unless the whole cluster goes.
func (r members) remove(ctx context.Context, m *etcdv1alpha2.EtcdMember) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(m, etcdv1alpha2.MemberCleanupFinalizer) {
		return ctrl.Result{}, nil
	}
	cluster := &etcdv1alpha2.EtcdCluster{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err == nil && cluster.DeletionTimestamp.IsZero() && metav1.IsControlledBy(m, cluster) {
		if err := r.leave(ctx, cluster, m); err != nil {
			return r.soon(), nil //nolint:nilerr // tried again, as the real one does; without quorum the member stays
		}
	}
	before := m.DeepCopy()
	controllerutil.RemoveFinalizer(m, etcdv1alpha2.MemberCleanupFinalizer)
	return ctrl.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, m, client.MergeFrom(before)))
}

// quorumWithout is etcd's strict check of a removal: the voters that are up must still be a quorum of the rest, unless the one that goes is down itself.
func quorumWithout(all []etcdv1alpha2.EtcdMember, leaving *etcdv1alpha2.EtcdMember) bool {
	voters, up := 0, 0
	for i := range all {
		if all[i].Name == leaving.Name || !all[i].Status.IsVoter {
			continue
		}
		voters++
		if ready(&all[i]) {
			up++
		}
	}
	return !leaving.Status.IsVoter || voters == 0 || up > voters/2
}

func (r members) leave(ctx context.Context, cluster *etcdv1alpha2.EtcdCluster, m *etcdv1alpha2.EtcdMember) error {
	list := &etcdv1alpha2.EtcdMemberList{}
	if err := r.client.List(ctx, list, client.InNamespace(m.Namespace), client.MatchingLabels{etcdv1alpha2.LabelCluster: m.Spec.ClusterName}); err != nil {
		return err
	}
	if !quorumWithout(list.Items, m) {
		return fmt.Errorf("etcd would refuse to remove %s: the rest has no quorum", m.Name)
	}
	var others []etcdv1alpha2.EtcdMember
	for _, o := range list.Items {
		if o.Name != m.Name && o.DeletionTimestamp.IsZero() && o.Status.PodName != "" {
			others = append(others, o)
		}
	}
	if len(others) == 0 && len(list.Items) == 1 {
		return nil
	}
	return r.withEtcd(ctx, cluster, others, func(ctx context.Context, etcd *clientv3.Client) error {
		known, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		e := memberOf(known.Members, m)
		if e == nil {
			return nil
		}
		_, err = etcd.MemberRemove(ctx, e.ID)
		return err
	})
}
