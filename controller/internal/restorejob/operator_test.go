package restorejob

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// operator makes the objects that the real one makes, one stage per step, when it is told to. It runs nothing: the members' answers come from the rig.
type operator struct {
	g *rig
	// members is how many come up; -1 means all that are wanted.
	members int
	// bootstrapFails gives up on the seed.
	bootstrapFails bool
	// seedFails, where set, decides that anew at each step.
	seedFails func() bool
	// off does nothing at all, but for snapshots.
	off bool
	// snapshot, where set, says how a safety snapshot ends instead of Complete; empty lets it run.
	snapshot func() etcdv1alpha2.EtcdSnapshotPhase
}

// snapshots ends those that are under way.
func (o *operator) snapshots() {
	list := &etcdv1alpha2.EtcdSnapshotList{}
	require.NoError(o.g.t, o.g.admin.List(o.g.t.Context(), list, client.InNamespace(o.g.ns)))
	for i := range list.Items {
		s := &list.Items[i]
		if s.Status.Phase == etcdv1alpha2.SnapshotComplete || s.Status.Phase == etcdv1alpha2.SnapshotFailed {
			continue
		}
		s.Status.Phase = etcdv1alpha2.SnapshotComplete
		if o.snapshot != nil {
			s.Status.Phase = o.snapshot()
		}
		s3 := s.Spec.Destination.S3
		s.Status.Artifact = &etcdv1alpha2.SnapshotArtifact{
			URI: "s3://" + s3.Bucket + "/" + s3.Key + s.Name + ".db", SizeBytes: 20512, Checksum: "sha256:" + strings.Repeat("5a", 32),
		}
		s.Status.Conditions = []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "SnapshotStored", Message: "says the operator", LastTransitionTime: metav1.Now()},
		}
		o.update(s)
	}
}

// up brings the cluster up at once.
func (o *operator) up() {
	for range 3 {
		o.step()
	}
}

func (o *operator) step() {
	o.snapshots()
	cluster := o.g.cluster()
	if o.off || cluster == nil || cluster.GetDeletionTimestamp() != nil {
		return
	}
	if o.seedFails != nil {
		o.bootstrapFails = o.seedFails()
	}
	id, _, _ := unstructured.NestedString(cluster.Object, "status", "clusterID")
	wanted, _ := number(cluster.Object, "spec", "replicas")
	came := wanted
	if o.members >= 0 {
		came = min(came, int64(o.members))
	}
	switch have := o.have(cluster); {
	case o.bootstrapFails:
		o.member(cluster, 0)
		o.status(cluster, "", 0, "Available", "False", etcdv1alpha2.ReasonBootstrapFailed)
	case have == 0:
		o.services(cluster)
		o.member(cluster, 0)
		o.status(cluster, "", 0, "Progressing", "True", etcdv1alpha2.ReasonWaitingForSeed)
	case id == "":
		o.status(cluster, o.idOf(cluster), 0, "Progressing", "True", etcdv1alpha2.ReasonWaitingForSeed)
	default:
		for i := range came {
			o.member(cluster, i)
			o.ready(cluster, i)
		}
		if came == wanted {
			o.status(cluster, id, wanted, "Progressing", "False", etcdv1alpha2.ReasonReconciled)
		}
	}
}

func (o *operator) idOf(cluster *unstructured.Unstructured) string {
	return strings.TrimLeft(strings.ReplaceAll(string(cluster.GetUID()), "-", "")[:12], "0")
}

func (o *operator) have(cluster *unstructured.Unstructured) int {
	list := &etcdv1alpha2.EtcdMemberList{}
	require.NoError(o.g.t, o.g.admin.List(o.g.t.Context(), list, client.InNamespace(o.g.ns)))
	n := 0
	for i := range list.Items {
		if c := metav1.GetControllerOf(&list.Items[i]); c != nil && c.UID == cluster.GetUID() {
			n++
		}
	}
	return n
}

func (o *operator) name(cluster *unstructured.Unstructured, i int64) string {
	return fmt.Sprintf("etcd-%s%d", string(cluster.GetUID())[:4], i)
}

func (o *operator) make(obj client.Object, owner client.Object, name string) {
	obj.SetNamespace(o.g.ns)
	obj.SetName(name)
	obj.SetLabels(map[string]string{etcdv1alpha2.LabelCluster: "etcd", etcdv1alpha2.LabelManagedBy: etcdv1alpha2.ManagedByOperator})
	kind, version := "EtcdMember", etcdv1alpha2.GroupVersion
	if u, ok := owner.(*unstructured.Unstructured); ok {
		kind = u.GetKind()
	}
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, version.WithKind(kind))})
	if err := o.g.admin.Create(o.g.t.Context(), obj); !apierrors.IsAlreadyExists(err) {
		require.NoError(o.g.t, err)
	}
}

func (o *operator) services(cluster *unstructured.Unstructured) {
	ports := []corev1.ServicePort{{Port: 2379, TargetPort: intstr.FromInt32(2379)}}
	o.make(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: ports}}, cluster, "etcd")
	o.make(&corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}, cluster, "etcd-client")
	o.make(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{etcdv1alpha2.LabelRole: etcdv1alpha2.RoleVoter}},
	}}, cluster, "etcd")
}

func (o *operator) member(cluster *unstructured.Unstructured, i int64) {
	name := o.name(cluster, i)
	m := &etcdv1alpha2.EtcdMember{Spec: etcdv1alpha2.EtcdMemberSpec{ClusterName: "etcd", ClusterToken: "t", InitialCluster: "x", Version: "3.6.11", Bootstrap: i == 0}}
	m.Spec.Storage.Size = resource.MustParse("1Gi")
	if o.get(name, m) {
		return
	}
	o.make(m, cluster, name)
	if !o.get(name, m) {
		return
	}
	o.make(&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}, m, "data-"+name)
	o.make(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}}}, m, name)
}

// get tells whether the object is still there: a deletion may have come between.
func (o *operator) get(name string, obj client.Object) bool {
	err := o.g.admin.Get(o.g.t.Context(), client.ObjectKey{Namespace: o.g.ns, Name: name}, obj)
	require.NoError(o.g.t, client.IgnoreNotFound(err))
	return err == nil
}

func (o *operator) ready(cluster *unstructured.Unstructured, i int64) {
	m := &etcdv1alpha2.EtcdMember{}
	if !o.get(o.name(cluster, i), m) {
		return
	}
	if m.Status.IsVoter && meta.IsStatusConditionTrue(m.Status.Conditions, "Ready") {
		return // a real operator does not write what is there
	}
	m.Status.IsVoter, m.Status.MemberID = true, "1"
	m.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "PodReady", LastTransitionTime: metav1.Now()}}
	o.update(m)
}

func (o *operator) status(cluster *unstructured.Unstructured, id string, ready int64, kind, status, reason string) {
	c := &etcdv1alpha2.EtcdCluster{}
	if !o.get(cluster.GetName(), c) {
		return
	}
	if now := c.Status.Conditions; c.Status.ClusterID == id && c.Status.ReadyMembers == int32(ready) && len(now) == 1 &&
		now[0].Type == kind && string(now[0].Status) == status && now[0].Reason == reason && now[0].ObservedGeneration == c.Generation {
		return // a real operator does not write what is there
	}
	c.Status.ClusterID, c.Status.ReadyMembers = id, int32(ready)
	c.Status.Conditions = []metav1.Condition{
		{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "says the operator", ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now()},
	}
	o.update(c)
}

// update leaves a lost race to the next step, as a real operator does.
func (o *operator) update(obj client.Object) {
	err := o.g.admin.Status().Update(o.g.t.Context(), obj, client.FieldOwner("etcd-operator"))
	if !apierrors.IsConflict(err) {
		require.NoError(o.g.t, client.IgnoreNotFound(err))
	}
}
