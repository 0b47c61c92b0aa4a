package restorereport

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/artifact"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

var taken = time.Unix(1_800_000_000, 0)

func plane(ns, name string, created time.Time, change func(*kamajiv1alpha1.TenantControlPlane)) kamajiv1alpha1.TenantControlPlane {
	p := kamajiv1alpha1.TenantControlPlane{}
	p.Namespace, p.Name, p.CreationTimestamp = ns, name, metav1.NewTime(created)
	change(&p)
	return p
}

func TestDataStoresOfACluster(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"etcd.tenant.svc:2379": true, "etcd-client.tenant.svc:2379": true, "etcd-headless.tenant.svc.cozy.local:2379": true, "etcd-x1.etcd.tenant.svc:2379": true,
		"etcd.tenant.svc": true, "etcd.other.svc:2379": false, "etcd2.tenant.svc:2379": false, "etcd.tenant:2379": false, "svc:2379": false, "10.0.0.1:2379": false,
		"etcd.tenant.svc.etcd.other.svc:2379": true,
	} {
		ds := kamajiv1alpha1.DataStore{Spec: kamajiv1alpha1.DataStoreSpec{Driver: kamajiv1alpha1.DriverEtcd, Endpoints: []string{"10.9.9.9:1", endpoint}}}
		ds.Name = "x"
		require.Equal(t, want, len(DataStoresOf([]kamajiv1alpha1.DataStore{ds}, "tenant", "etcd")) == 1, endpoint)
	}
}

// Each way to refer to a DataStore counts; what happens to a control plane follows from the snapshot's keys, and from its age.
func TestControlPlanesAreSorted(t *testing.T) {
	old, young := taken.Add(-time.Hour), taken.Add(time.Hour)
	bySpec := func(p *kamajiv1alpha1.TenantControlPlane) { p.Spec.DataStore = "ds" }
	planes := []kamajiv1alpha1.TenantControlPlane{
		plane("a", "kept", old, bySpec),
		plane("a", "by-status", old, func(p *kamajiv1alpha1.TenantControlPlane) { p.Status.Storage.DataStoreName = "ds" }),
		plane("a", "by-override", old, func(p *kamajiv1alpha1.TenantControlPlane) {
			p.Spec.DataStore, p.Spec.DataStoreOverrides = "other", []kamajiv1alpha1.DataStoreOverride{{Resource: "/events", DataStore: "ds"}}
		}),
		plane("b", "own-schema", old, func(p *kamajiv1alpha1.TenantControlPlane) { p.Spec.DataStore, p.Spec.DataStoreSchema = "ds", "mine" }),
		plane("b", "reported", old, func(p *kamajiv1alpha1.TenantControlPlane) {
			p.Spec.DataStore, p.Spec.DataStoreSchema, p.Status.Storage.Setup.Schema = "ds", "wrong", "right"
		}),
		plane("b", "young", young, bySpec),
		plane("b", "again", young, bySpec),
		plane("c", "elsewhere", young, func(p *kamajiv1alpha1.TenantControlPlane) { p.Spec.DataStore = "other" }),
	}
	users := UsersOf(planes, []string{"ds"})
	require.Len(t, users, 7)
	f := &record.Findings{Tenants: []string{"a_by_override", "a_by_status", "a_kept", "b_again", "gone_1", "mine", "right"}}
	c := Sort([]string{"ds"}, users, f, taken)
	require.Equal(t, 7, c.Affected.Count)
	require.Equal(t, []string{"b/young"}, c.Lost.Names)
	require.Equal(t, []string{"b/again"}, c.Replaced.Names)
	require.Equal(t, []string{"gone_1"}, c.Deleted.Names)
	require.Zero(t, c.Unknown.Count)

	f.MoreTenants = true
	c = Sort([]string{"ds"}, users, f, taken)
	require.Equal(t, []string{"b/young"}, c.Unknown.Names)
	require.Zero(t, c.Lost.Count, "nobody is called lost who may be among the unlisted")
	require.Zero(t, Sort(nil, nil, f, taken).Deleted.Count, "without a DataStore nobody knows whose the keys are")
}

func TestFindingsAreBounded(t *testing.T) {
	facts := artifact.Facts{Roots: map[string]int64{}, Difference: &artifact.Difference{Vanish: artifact.Change{Prefixes: map[string]int64{"": 5, "/bin\x00\xff/x": 9}}}}
	for i := range 1200 {
		facts.Roots[fmt.Sprintf("t%04d", i)] = 1
		facts.Difference.Vanish.Prefixes[fmt.Sprintf("/p/%04d", i)] = 2
	}
	facts.Difference.Vanish.Keys = 2414
	f := Find(facts, Live{Member: "m"})
	require.Len(t, f.Tenants, maxTenants)
	require.True(t, f.MoreTenants)
	require.Len(t, f.Vanish.Prefixes, maxPrefixes)
	require.Equal(t, record.PrefixCount{Prefix: `/bin\x00\xff/x`, Keys: 9}, f.Vanish.Prefixes[0])
	require.Equal(t, int64(2414-9-99*2), f.Vanish.Rest)
	require.Zero(t, f.Appear.Keys)

	f = Find(facts, Live{Error: "nobody answers"})
	require.Nil(t, f.Vanish, "a list that ended early compares nothing")
}

func TestDowntimeIsMeasured(t *testing.T) {
	require.Equal(t, Downtime{}, Measure(nil))
	past := []Past{{taken.Add(2 * time.Hour), 30 * time.Second}, {taken, 10 * time.Second}, {taken.Add(time.Hour), 20 * time.Second}}
	require.Equal(t, Downtime{Restores: 3, LastSeconds: 30, MedianSeconds: 20, MaxSeconds: 30}, Measure(past))
}

// The largest report that can be asked for fits a ConfigMap, with names as long as names get.
func TestTheLargestReportFits(t *testing.T) {
	long := strings.Repeat("n", 253)
	r := Report{RestoreJob: long, Vanish: &record.Change{}, Appear: &record.Change{}}
	for i := range 100 {
		p := record.PrefixCount{Prefix: printable(fmt.Sprintf("/%d/%s", i, strings.Repeat("\x00", 1000))), Keys: 1}
		r.Vanish.Prefixes, r.Appear.Prefixes = append(r.Vanish.Prefixes, p), append(r.Appear.Prefixes, p)
	}
	c := &record.Consumers{LeftOut: 7}
	for i := range 1000 {
		for _, n := range []*Names{&r.ControlPlanes.Affected, &r.ControlPlanes.Lost, &r.ControlPlanes.Replaced, &r.ControlPlanes.Unknown, &r.ControlPlanes.Deleted} {
			n.Add(long + "/" + long)
		}
		c.Trouble = append(c.Trouble, strings.Repeat("t", 400))
		c.Pods = append(c.Pods, record.ConsumerPod{Namespace: long, Name: long, UID: types.UID(fmt.Sprint(i)), State: record.ConsumerFailed, Message: strings.Repeat("m", 400)})
	}
	r.ControlPlanes.DataStores = []string{"ds"}
	consumers := Count(c)
	r.Consumers = &consumers
	data, err := r.Data()
	require.NoError(t, err)
	require.Less(t, len(data[KeyJSON])+len(data[KeyText]), 1<<20)
	var back Report
	require.NoError(t, json.Unmarshal([]byte(data[KeyJSON]), &back))
	require.Equal(t, 1000, back.ControlPlanes.Lost.Count)
	require.Equal(t, 1007, back.Consumers.Pods)
	require.Contains(t, data[KeyText], "and 980 more")
}
