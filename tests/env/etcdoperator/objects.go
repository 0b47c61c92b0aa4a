package etcdoperator

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

const (
	etcdContainer = "etcd"
	// defaultDeadline applies where the cluster names none.
	defaultDeadline = 600
	defaultReplicas = 3
)

func clusterLabels(cluster string, extra *etcdv1alpha2.AdditionalMetadata) map[string]string {
	labels := map[string]string{}
	if extra != nil {
		maps.Copy(labels, extra.Labels)
	}
	labels[etcdv1alpha2.LabelName] = etcdv1alpha2.NameEtcd
	labels[etcdv1alpha2.LabelInstance] = cluster
	labels[etcdv1alpha2.LabelManagedBy] = etcdv1alpha2.ManagedByOperator
	labels[etcdv1alpha2.LabelCluster] = cluster
	return labels
}

func memberLabels(cluster, member string, extra *etcdv1alpha2.AdditionalMetadata) map[string]string {
	labels := clusterLabels(cluster, extra)
	labels[etcdv1alpha2.LabelComponent] = member
	return labels
}

func annotations(extra *etcdv1alpha2.AdditionalMetadata) map[string]string {
	if extra == nil {
		return nil
	}
	return maps.Clone(extra.Annotations)
}

// headlessService gives members their names; it has the cluster's name and publishes members that are not ready.
func headlessService(c *etcdv1alpha2.EtcdCluster) *corev1.Service {
	s := service(c, c.Name, corev1.ServicePort{Name: "client", Port: 2379}, corev1.ServicePort{Name: "peer", Port: 2380})
	s.Spec.ClusterIP, s.Spec.PublishNotReadyAddresses = corev1.ClusterIPNone, true
	return s
}

func clientService(c *etcdv1alpha2.EtcdCluster) *corev1.Service {
	return service(c, c.Name+"-client", corev1.ServicePort{Name: "client", Port: 2379})
}

func service(c *etcdv1alpha2.EtcdCluster, name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: name, Labels: clusterLabels(c.Name, c.Spec.AdditionalMetadata), Annotations: annotations(c.Spec.AdditionalMetadata),
		},
		Spec: corev1.ServiceSpec{Selector: map[string]string{etcdv1alpha2.LabelCluster: c.Name}, Ports: ports},
	}
}

// budget protects voters only.
func budget(c *etcdv1alpha2.EtcdCluster, voters int32) *policyv1.PodDisruptionBudget {
	size := max(voters, c.Status.Observed.Replicas)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name, Labels: clusterLabels(c.Name, c.Status.Observed.AdditionalMetadata),
			Annotations: annotations(c.Status.Observed.AdditionalMetadata),
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(size/2 + 1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				etcdv1alpha2.LabelCluster: c.Name, etcdv1alpha2.LabelRole: etcdv1alpha2.RoleVoter,
			}},
		},
	}
}

// newMember takes everything from the latched target, so edits of the cluster reach members made later only.
func newMember(c *etcdv1alpha2.EtcdCluster, seed bool) *etcdv1alpha2.EtcdMember {
	o := c.Status.Observed
	m := &etcdv1alpha2.EtcdMember{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, GenerateName: c.Name + "-", Labels: clusterLabels(c.Name, o.AdditionalMetadata), Annotations: annotations(o.AdditionalMetadata),
		},
		Spec: etcdv1alpha2.EtcdMemberSpec{
			ClusterName: c.Name, ClusterToken: c.Status.ClusterToken, Bootstrap: seed, Version: o.Version, Storage: o.Storage, Resources: o.Resources,
			Options: o.Options, TLS: memberTLS(c.Spec.TLS), Affinity: o.Affinity, TopologySpreadConstraints: o.TopologySpreadConstraints,
			AdditionalMetadata: o.AdditionalMetadata, ImagePullSecrets: o.ImagePullSecrets,
		},
	}
	if seed && c.Spec.Bootstrap != nil {
		m.Spec.Restore = c.Spec.Bootstrap.Restore.DeepCopy()
	}
	return m
}

func memberTLS(t *etcdv1alpha2.TLSSpec) *etcdv1alpha2.MemberTLS {
	if t == nil {
		return nil
	}
	out := &etcdv1alpha2.MemberTLS{}
	if t.Client != nil {
		out.ClientServerSecretRef, out.ClientMTLS = t.Client.ServerSecretRef, t.Client.OperatorClientSecretRef != nil
	}
	if t.Peer != nil {
		out.PeerSecretRef = t.Peer.SecretRef
	}
	return out
}

func observe(s etcdv1alpha2.EtcdClusterSpec) *etcdv1alpha2.ObservedSpec {
	return &etcdv1alpha2.ObservedSpec{
		Version: s.Version, Replicas: ptr.Deref(s.Replicas, defaultReplicas), Storage: s.Storage, Resources: s.Resources, Options: s.Options,
		Affinity: s.Affinity, TopologySpreadConstraints: s.TopologySpreadConstraints, AdditionalMetadata: s.AdditionalMetadata, ImagePullSecrets: s.ImagePullSecrets,
	}
}

func latched(c *etcdv1alpha2.EtcdCluster) bool {
	return apiequality.Semantic.DeepEqual(observe(c.Spec), c.Status.Observed)
}

func setCondition(c *etcdv1alpha2.EtcdCluster, kind string, ok bool, reason, message string) {
	meta.SetStatusCondition(&c.Status.Conditions, condition(c.Generation, kind, ok, reason, message))
}

func condition(generation int64, kind string, ok bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}

func ready(m *etcdv1alpha2.EtcdMember) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, etcdv1alpha2.ConditionReady)
}
