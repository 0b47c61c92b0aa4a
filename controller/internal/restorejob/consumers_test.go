package restorejob

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/restorereport"
)

// kamajiRig plays Kamaji and the controllers of Deployments and PodDisruptionBudgets for control planes in namespaces of their own.
type kamajiRig struct {
	*rig
	sets map[string]*appsv1.ReplicaSet // by namespace/name of the control plane
	// broken control planes get no ready replacement.
	broken map[string]bool
}

// dataStore points at the rig's etcd.
func (g *rig) dataStore() *kamajiRig {
	g.secret("s", kamajiPair())
	ref := func(key string) kamajiv1alpha1.ContentRef {
		return kamajiv1alpha1.ContentRef{SecretReference: &kamajiv1alpha1.SecretReference{Name: "s", Namespace: g.ns, KeyPath: key}}
	}
	key := ref("tls.key")
	ds := &kamajiv1alpha1.DataStore{ObjectMeta: metav1.ObjectMeta{Name: g.ns}, Spec: kamajiv1alpha1.DataStoreSpec{
		Driver: kamajiv1alpha1.DriverEtcd, Endpoints: []string{"etcd." + g.ns + ".svc:2379"},
		TLSConfig: &kamajiv1alpha1.TLSConfig{
			CertificateAuthority: kamajiv1alpha1.CertificateAuthority{Certificate: ref("tls.crt"), PrivateKey: &key},
			ClientCertificate:    &kamajiv1alpha1.ClientCertificate{Certificate: ref("tls.crt"), PrivateKey: key},
		},
	}}
	require.NoError(g.t, g.admin.Create(g.t.Context(), ds))
	return &kamajiRig{rig: g, sets: map[string]*appsv1.ReplicaSet{}, broken: map[string]bool{}}
}

// plane makes a control plane in a namespace of its own, with a Deployment, a ReplicaSet and ready Pods.
func (k *kamajiRig) plane(ns, name string, pods int, change func(*kamajiv1alpha1.TenantControlPlane)) {
	k.t.Helper()
	ctx := k.t.Context()
	if err := k.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err == nil {
		k.await(func() bool {
			return k.admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{}) == nil
		})
	}
	tcp := &kamajiv1alpha1.TenantControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	tcp.Spec.ControlPlane.Service.ServiceType, tcp.Spec.Kubernetes.Version = "ClusterIP", "v1.34.0"
	tcp.Spec.NetworkProfile = &kamajiv1alpha1.NetworkProfile{}
	change(tcp)
	status := tcp.Status
	require.NoError(k.t, k.admin.Create(ctx, tcp))
	tcp.Status = status
	require.NoError(k.t, k.admin.Status().Update(ctx, tcp))
	labels := map[string]string{"kamaji.clastix.io/name": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-apiserver", Image: "x"}}}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(tcp, kamajiv1alpha1.GroupVersion.WithKind("TenantControlPlane"))}},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	require.NoError(k.t, k.admin.Create(ctx, d))
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	require.NoError(k.t, k.admin.Create(ctx, rs))
	k.sets[ns+"/"+name] = rs
	for range pods {
		k.pod(rs, labels, true)
	}
	// Pods that merely carry the labels are nobody's API server, whatever else controls them.
	k.bare(ns, name+"-decoy", labels, nil)
	stray := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-stray"}, Spec: rs.Spec}
	require.NoError(k.t, k.admin.Create(ctx, stray))
	k.bare(ns, name+"-strays", labels, []metav1.OwnerReference{*metav1.NewControllerRef(stray, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))})
}

func (k *kamajiRig) pod(rs *appsv1.ReplicaSet, labels map[string]string, ready bool) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: rs.Namespace, GenerateName: rs.Name + "-", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}, Spec: rs.Spec.Template.Spec}
	require.NoError(k.t, k.admin.Create(k.t.Context(), p))
	k.running(p, ready)
}

func (k *kamajiRig) bare(ns, name string, labels map[string]string, owners []metav1.OwnerReference) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels, OwnerReferences: owners}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	require.NoError(k.t, k.admin.Create(k.t.Context(), p))
	k.running(p, true)
}

func (k *kamajiRig) running(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
	require.NoError(k.t, k.admin.Status().Update(k.t.Context(), p))
}

func (k *kamajiRig) pods(plane string) []corev1.Pod {
	rs := k.sets[plane]
	list := &corev1.PodList{}
	require.NoError(k.t, k.admin.List(k.t.Context(), list, client.InNamespace(rs.Namespace)))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, rs) })
}

// step replaces a Pod that has gone: first unready, then, in the next step, ready.
func (k *kamajiRig) step(want int) {
	for plane, rs := range k.sets {
		pods := k.pods(plane)
		for i := range pods {
			if !podReady(&pods[i]) && !k.broken[plane] {
				k.running(&pods[i], true)
			}
		}
		if len(pods) < want {
			k.pod(rs, rs.Spec.Template.Labels, false)
		}
	}
}

func (k *kamajiRig) uids(plane string) []types.UID {
	var uids []types.UID
	for _, p := range k.pods(plane) {
		uids = append(uids, p.UID)
	}
	return uids
}

// drive runs a job to its end while Kamaji's side moves on, and looks at the world before each pass.
func (k *kamajiRig) drive(job string, want int, look func()) *backupsv1alpha1.RestoreJob {
	k.t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for {
		res, err := k.once(job)
		j := k.job(job)
		if done(j) {
			return j
		}
		require.True(k.t, time.Now().Before(deadline), "%v %+v", err, j.Status)
		look()
		if res.RequeueAfter == soon && err == nil {
			continue
		}
		k.ops.step()
		k.step(want)
		time.Sleep(pause)
	}
}

func (g *rig) report(job string) (restorereport.Report, *corev1.ConfigMap) {
	g.t.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(g.t, g.admin.Get(g.t.Context(), client.ObjectKey{Namespace: g.ns, Name: reportName(job)}, cm))
	var r restorereport.Report
	require.NoError(g.t, json.Unmarshal([]byte(cm.Data[restorereport.KeyJSON]), &r))
	return r, cm
}

func refersTo(ds string) func(*kamajiv1alpha1.TenantControlPlane) {
	return func(p *kamajiv1alpha1.TenantControlPlane) { p.Spec.DataStore = ds }
}

// C32: every API server that uses the etcd is restarted, one at a time, in whatever namespace, and no other Pod.
func TestC32ConsumersAreRestartedOneByOne(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.small("again")
	k := g.dataStore()
	k.plane(g.ns+"-a", "one", 2, refersTo(g.ns))
	k.plane(g.ns+"-b", "two", 2, func(p *kamajiv1alpha1.TenantControlPlane) { p.Status.Storage.DataStoreName = g.ns })
	k.plane(g.ns+"-b", "other", 1, refersTo("another"))
	one, two, other := g.ns+"-a/one", g.ns+"-b/two", g.ns+"-b/other"
	before := append(k.uids(one), k.uids(two)...)
	stays := k.uids(other)
	job := k.drive("again", 2, func() {
		ready := 0
		for _, plane := range []string{one, two} {
			for _, p := range k.pods(plane) {
				if podReady(&p) {
					ready++
				}
			}
		}
		require.GreaterOrEqual(t, ready, 3, "at most one API server is away at a time")
		if count(g.writes, "eviction Pod") > 0 {
			require.Equal(t, "True/"+backupsv1alpha1.ReasonAllMembersAgree, condition(g.job("again"), "Whole"), "not before the cluster is whole")
			require.Nil(t, g.suspended(), "the release works again")
		}
	})
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, "True/"+backupsv1alpha1.ReasonConsumersRestarted, condition(job, "ConsumersRestarted"))
	require.Equal(t, 4, count(g.writes, "eviction Pod"), "%q", g.writes)
	for _, uid := range append(k.uids(one), k.uids(two)...) {
		require.NotContains(t, before, uid)
	}
	require.Subset(t, k.uids(other), stays)
	for _, decoy := range []client.ObjectKey{{Namespace: g.ns + "-a", Name: "one-decoy"}, {Namespace: g.ns + "-b", Name: "two-decoy"}, {Namespace: g.ns + "-a", Name: "one-strays"}} {
		require.NoError(t, g.admin.Get(t.Context(), decoy, &corev1.Pod{}))
	}
	r, _ := g.report("again")
	require.Equal(t, 4, r.Consumers.Restarted)
	require.Zero(t, r.Consumers.Pending.Count)
	require.Empty(t, g.records())
}

// A PodDisruptionBudget is respected for as long as the patience lasts, and no failure of a consumer's is one of the restore's.
func TestC32ARefusedEvictionIsReportedAndHarmless(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.small("again")
	k := g.dataStore()
	k.plane(g.ns+"-a", "stubborn", 2, refersTo(g.ns))
	k.plane(g.ns+"-b", "good", 1, refersTo(g.ns))
	stubborn, good := g.ns+"-a/stubborn", g.ns+"-b/good"
	before, replaceable := k.uids(stubborn), k.uids(good)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.ns + "-a", Name: "p"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kamaji.clastix.io/name": "stubborn"}}},
	}
	require.NoError(t, g.admin.Create(t.Context(), pdb))
	pdb.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: pdb.Generation, ExpectedPods: 2, CurrentHealthy: 2, DesiredHealthy: 2}
	require.NoError(t, g.admin.Status().Update(t.Context(), pdb))
	refused := 0
	job := k.drive("again", 1, func() {
		if recs := g.records(); len(recs) == 1 && recs[0].Consumers != nil && recs[0].Consumers.Pods[0].TriedAt != nil {
			refused++
			require.Contains(t, recs[0].Consumers.Pods[0].Message, "disruption budget")
			g.late += 10 * time.Second
		}
	})
	require.Greater(t, refused, 3)
	require.Equal(t, okPhase, job.Status.Phase, job.Status.Message)
	require.Equal(t, "False/"+backupsv1alpha1.ReasonConsumersNotRestarted, condition(job, "ConsumersRestarted"))
	require.Contains(t, messageOf(job, "ConsumersRestarted"), "1 of 3 restarted, 2 failed")
	require.ElementsMatch(t, before, k.uids(stubborn), "it was left alone")
	require.NotEqual(t, replaceable, k.uids(good))
	r, cm := g.report("again")
	require.Equal(t, 2, r.Consumers.Failed.Count)
	require.Contains(t, cm.Data[restorereport.KeyText], "disruption budget")
	require.Contains(t, g.told(), backupsv1alpha1.ReasonConsumersNotRestarted)
}

func TestConsumersMayBeDeclined(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	k := g.dataStore()
	job := newJob("again")
	job.Spec.Options = &runtime.RawExtension{Raw: []byte(`{"restartConsumers":false}`)}
	g.create(newRelease(), newBackup(), job)
	g.apply(chartCluster(g.ns, true))
	g.ops.up()
	k.plane(g.ns+"-a", "one", 1, refersTo(g.ns))
	ended := k.drive("again", 1, func() {})
	require.Equal(t, okPhase, ended.Status.Phase)
	require.Equal(t, "False/"+backupsv1alpha1.ReasonConsumersDeclined, condition(ended, "ConsumersRestarted"))
	require.Zero(t, count(g.writes, "eviction Pod"))
}

// Killed after any write of the restart, each Pod is evicted once, and the restore ends the same.
func TestC62KilledWhileConsumersRestart(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, killAt int) *rig {
		g := newRig(t)
		g.small("again")
		g.killAt = killAt
		k := g.dataStore()
		k.plane(g.ns+"-a", "one", 2, refersTo(g.ns))
		job := k.drive("again", 2, func() {})
		require.Equal(t, okPhase, job.Status.Phase)
		require.Equal(t, "True/"+backupsv1alpha1.ReasonConsumersRestarted, condition(job, "ConsumersRestarted"))
		require.Equal(t, 2, count(g.writes, "eviction Pod"), "%q", g.writes)
		r, _ := g.report("again")
		require.Equal(t, 2, r.Consumers.Restarted)
		require.Empty(t, g.records())
		return g
	}
	undisturbed := run(t, 0)
	for _, n := range killPoints(t, slices.Index(undisturbed.writes, "eviction Pod")-2, len(undisturbed.writes)) {
		t.Run(fmt.Sprintf("%02d %s", n+1, undisturbed.writes[n]), func(t *testing.T) {
			t.Parallel()
			run(t, n+1)
		})
	}
}

func TestAdvance(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { m := metav1.NewTime(now.Add(-d)); return &m }
	pod := func(plane, uid string, state record.ConsumerState, since *metav1.Time) record.ConsumerPod {
		return record.ConsumerPod{Namespace: "n", ControlPlane: plane, Name: uid, UID: types.UID(uid), State: state, Since: since}
	}
	list := func(pods ...record.ConsumerPod) *record.Consumers {
		return &record.Consumers{StartedAt: metav1.NewTime(now.Add(-time.Minute)), Pods: pods}
	}
	states := func(c *record.Consumers) string {
		s := ""
		for _, p := range c.Pods {
			s += string(p.State) + ";"
		}
		return s
	}
	refused := pod("a", "1", record.ConsumerPending, at(time.Minute))
	refused.TriedAt, refused.Message = at(time.Second), "budget"
	again := refused
	again.TriedAt = at(evictionRetry)
	tired := again
	tired.Since = at(consumerPatience + time.Second)
	for _, c := range []struct {
		name    string
		list    *record.Consumers
		pods    []podNow
		next    string
		waiting string
		states  string
	}{
		{"nobody", list(), nil, "", "", ""},
		{"the first", list(pod("a", "1", "", nil), pod("a", "2", "", nil)), []podNow{{UID: "1", Ready: true}, {UID: "2", Ready: true}}, "n/1", "", ";;"},
		{"it is going", list(pod("a", "1", "", nil)), []podNow{{UID: "1", Going: true}}, "", "", "Evicted;"},
		{"it is gone", list(pod("a", "1", "", nil)), nil, "", "", "Evicted;"},
		{"its replacement is not ready", list(pod("a", "1", "Evicted", at(0)), pod("a", "2", "", nil)), []podNow{{UID: "2", Ready: true}, {UID: "9"}}, "", "ready", "Evicted;;"},
		{"it is", list(pod("a", "1", "Evicted", at(0)), pod("a", "2", "", nil)), []podNow{{UID: "2", Ready: true}, {UID: "9", Ready: true}}, "", "", "Restarted;;"},
		{"the first replacement does not count twice", list(pod("a", "1", "Restarted", at(0)), pod("a", "2", "Evicted", at(0))), []podNow{{UID: "9", Ready: true}}, "", "ready", "Restarted;Evicted;"},
		{"a Pod that is going is no replacement", list(pod("a", "1", "Evicted", at(0))), []podNow{{UID: "9", Ready: true, Going: true}}, "", "ready", "Evicted;"},
		{"one that never gets ready spares the rest", list(pod("a", "1", "Evicted", at(consumerPatience+time.Second)), pod("a", "2", "", nil), pod("b", "3", "", nil)), nil, "", "", "Failed;Failed;;"},
		{"refused a moment ago", list(refused), []podNow{{UID: "1", Ready: true}}, "", "budget", ";"},
		{"asked again", list(again), []podNow{{UID: "1", Ready: true}}, "n/1", "", ";"},
		{"refused for too long", list(tired, pod("a", "2", "", nil)), []podNow{{UID: "1", Ready: true}}, "", "", "Failed;Failed;"},
		{"too long altogether", &record.Consumers{StartedAt: *at(2 * consumersLimit), Pods: []record.ConsumerPod{pod("a", "1", "Restarted", nil), pod("a", "2", "", nil)}}, nil, "", "", "Restarted;Failed;"},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := states(c.list)
			s := advance(c.list, func(string, string) ([]podNow, error) { return c.pods, nil }, now)
			require.Equal(t, c.next, s.next)
			require.Contains(t, s.waiting, c.waiting)
			require.Equal(t, c.waiting == "", s.waiting == "")
			require.Equal(t, c.states, states(s.consumers))
			require.Equal(t, was, states(c.list), "the record is left as it is")
			require.Equal(t, was != c.states, s.changed)
		})
	}
}
