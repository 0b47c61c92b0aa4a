package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cozy-etcd/cozy-etcd/tests/harness"
)

// kinds is everything that a restore or a backup touches or makes, and what hangs on it.
var kinds = []schema.GroupVersionKind{
	{Group: "backups.cozystack.io", Version: "v1alpha1", Kind: "BackupJob"},
	{Group: "backups.cozystack.io", Version: "v1alpha1", Kind: "Backup"},
	{Group: "backups.cozystack.io", Version: "v1alpha1", Kind: "RestoreJob"},
	{Group: "etcd-operator.cozystack.io", Version: "v1alpha2", Kind: "EtcdCluster"},
	{Group: "etcd-operator.cozystack.io", Version: "v1alpha2", Kind: "EtcdMember"},
	{Group: "etcd-operator.cozystack.io", Version: "v1alpha2", Kind: "EtcdSnapshot"},
	{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Secret"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
}

// clusterKinds belong to a tenant although they live in no namespace: a volume by its claim, a DataStore by its name.
var clusterKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "PersistentVolume"},
	{Group: "kamaji.clastix.io", Version: "v1alpha1", Kind: "DataStore"},
}

// Dump is the canonical form of everything in the tenant's namespace, of what belongs to it elsewhere, and of the controller's records, one line an object.
func Dump(ctx context.Context, t *harness.Tenant) ([]string, error) {
	var lines []string
	for _, namespace := range []string{t.Namespace, harness.SystemNamespace} {
		for _, gvk := range kinds {
			more, err := dump(ctx, t, gvk, client.InNamespace(namespace))
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
		}
	}
	for _, gvk := range clusterKinds {
		more, err := dump(ctx, t, gvk)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	sort.Strings(lines)
	return lines, nil
}

func dump(ctx context.Context, t *harness.Tenant, gvk schema.GroupVersionKind, options ...client.ListOption) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := t.Client.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	var lines []string
	for i := range list.Items {
		o := &list.Items[i]
		if o.GetNamespace() == "" && !belongs(o, t.Namespace) {
			continue
		}
		line, err := canonical(o, t.Namespace)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// belongs tells whether an object without a namespace is of the tenant.
func belongs(o *unstructured.Unstructured, namespace string) bool {
	claimed, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "namespace")
	return claimed == namespace || o.GetName() == namespace
}

func canonical(o *unstructured.Unstructured, namespace string) (string, error) {
	for _, path := range volatile {
		unstructured.RemoveNestedField(o.Object, path...)
	}
	if o.GetKind() != "ConfigMap" {
		unstructured.RemoveNestedField(o.Object, "data")
	}
	sortConditions(o)
	managers := make([]string, 0, len(o.GetManagedFields()))
	for _, m := range o.GetManagedFields() {
		managers = append(managers, fmt.Sprintf("%s %s %s %s", m.Manager, m.Operation, m.Subresource, m.FieldsV1.GetRawString()))
	}
	slices.Sort(managers)
	o.SetManagedFields(nil)
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return "", err
	}
	line := o.GetKind() + " " + string(raw)
	if o.GetKind() == "EtcdCluster" || o.GetKind() == "HelmRelease" {
		line += " managers: " + strings.Join(managers, "; ")
	}
	return quiet(strings.ReplaceAll(line, namespace, "<namespace>")), nil
}

// sortConditions drops the order in which conditions appeared: they are a set.
func sortConditions(o *unstructured.Unstructured) {
	list, found, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil || !found {
		return
	}
	kind := func(c any) string {
		m, _ := c.(map[string]any)
		return fmt.Sprint(m["type"])
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(kind(a), kind(b)) })
	_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
}

// Difference lists the objects that only one of two dumps has. Where both have an object of that name, it shows the first place where they part.
func Difference(want, got []string) string {
	var b strings.Builder
	missing, extra := without(want, got), without(got, want)
	for _, line := range missing {
		i := slices.IndexFunc(extra, func(other string) bool { return identity(other) == identity(line) })
		if i < 0 {
			fmt.Fprintf(&b, "- %.300s\n", line)
			continue
		}
		at := 0
		for at < min(len(line), len(extra[i])) && line[at] == extra[i][at] {
			at++
		}
		fmt.Fprintf(&b, "%s\n  - …%.300s\n  + …%.300s\n", identity(line), line[max(0, at-80):], extra[i][max(0, at-80):])
		extra = slices.Delete(extra, i, i+1)
	}
	for _, line := range extra {
		fmt.Fprintf(&b, "+ %.300s\n", line)
	}
	if b.Len() == 0 && len(want) != len(got) {
		fmt.Fprintf(&b, "%d objects, expected %d\n", len(got), len(want))
	}
	return b.String()
}

func without(lines, others []string) []string {
	var left []string
	for _, line := range lines {
		if !slices.Contains(others, line) {
			left = append(left, line)
		}
	}
	return left
}

// identity is the kind and the name at the head of a line.
func identity(line string) string {
	kind, rest, _ := strings.Cut(line, " ")
	name := namePattern.FindString(rest)
	return kind + " " + name
}

var namePattern = regexp.MustCompile(`"name":"[^"]*","namespace"`)
