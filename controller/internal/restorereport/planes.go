package restorereport

import (
	"net"
	"slices"
	"sort"
	"strings"
	"time"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// DataStoresOf gives the DataStores whose endpoints are a cluster's Services, by their names.
func DataStoresOf(stores []kamajiv1alpha1.DataStore, namespace, cluster string) []kamajiv1alpha1.DataStore {
	var found []kamajiv1alpha1.DataStore
	for i := range stores {
		s := &stores[i]
		if s.Spec.Driver == kamajiv1alpha1.DriverEtcd && slices.ContainsFunc(s.Spec.Endpoints, func(e string) bool { return pointsAt(e, namespace, cluster) }) {
			found = append(found, *s)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found
}

// pointsAt tells whether an endpoint is a Service of the cluster, or a member behind one, such as etcd.tenant.svc:2379.
func pointsAt(endpoint, namespace, cluster string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		host = endpoint
	}
	labels := strings.Split(host, ".")
	at := slices.Index(labels, "svc")
	if at < 2 || labels[at-1] != namespace {
		return false
	}
	switch labels[at-2] {
	case cluster, cluster + "-client", cluster + "-headless":
		return true
	}
	return false
}

// UsersOf gives the control planes that refer to one of the DataStores in any way.
func UsersOf(planes []kamajiv1alpha1.TenantControlPlane, stores []string) []kamajiv1alpha1.TenantControlPlane {
	var users []kamajiv1alpha1.TenantControlPlane
	for i := range planes {
		p := &planes[i]
		refers := slices.Contains(stores, p.Spec.DataStore) || slices.Contains(stores, p.Status.Storage.DataStoreName) ||
			slices.ContainsFunc(p.Spec.DataStoreOverrides, func(o kamajiv1alpha1.DataStoreOverride) bool { return slices.Contains(stores, o.DataStore) })
		if refers {
			users = append(users, *p)
		}
	}
	sort.Slice(users, func(i, j int) bool { return name(&users[i]) < name(&users[j]) })
	return users
}

func name(p *kamajiv1alpha1.TenantControlPlane) string { return p.Namespace + "/" + p.Name }

// schemaOf is the first path segment of a control plane's keys: the one that Kamaji reports, else the one that it would choose.
func schemaOf(p *kamajiv1alpha1.TenantControlPlane) string {
	switch {
	case p.Status.Storage.Setup.Schema != "":
		return p.Status.Storage.Setup.Schema
	case p.Spec.DataStoreSchema != "":
		return p.Spec.DataStoreSchema
	}
	return strings.ReplaceAll(p.Namespace+"_"+p.Name, "-", "_")
}

// Sort tells what happens to each control plane. The users refer to one of the stores.
func Sort(stores []string, users []kamajiv1alpha1.TenantControlPlane, f *record.Findings, takenAt time.Time) ControlPlanes {
	c := ControlPlanes{DataStores: stores}
	schemas := map[string]bool{}
	for i := range users {
		p := &users[i]
		schema := schemaOf(p)
		schemas[schema] = true
		c.Affected.Add(name(p))
		_, there := slices.BinarySearch(f.Tenants, schema)
		switch {
		case there && !takenAt.IsZero() && p.CreationTimestamp.After(takenAt):
			c.Replaced.Add(name(p))
		case there:
		case f.MoreTenants:
			c.Unknown.Add(name(p))
		default:
			c.Lost.Add(name(p))
		}
	}
	if len(stores) == 0 {
		return c
	}
	for _, t := range f.Tenants {
		if !schemas[t] {
			c.Deleted.Add(t)
		}
	}
	return c
}
