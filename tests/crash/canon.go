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
}

// volatile are the paths that differ between two undisturbed runs.
var volatile = [][]string{
	{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"}, {"metadata", "generateName"},
	{"status", "startedAt"}, {"status", "completedAt"}, {"spec", "takenAt"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "volumeName"},
	{"status", "history"}, {"status", "lastAttemptedConfigDigest"}, {"data"},
}

// noise are values that differ between two undisturbed runs, wherever they stand.
var noise = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`), "<time>"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "<sha256>"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<sha256>"},
	{regexp.MustCompile(`\betcd-[b-df-hj-np-tv-z0-9]{5}\b`), "etcd-<member>"},
	{regexp.MustCompile(`\b[0-9a-f]{12,16}\b`), "<id>"},
	{regexp.MustCompile(`-[0-9a-f]{8}\b`), "-<id>"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "<address>"},
	{regexp.MustCompile(`-snapshot-[b-df-hj-np-tv-z0-9]{5}\b`), "-snapshot-<pod>"},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?m?s\b`), "<duration>"},
	{regexp.MustCompile(`("modifiedAt":)"[0-9]+"`), `$1"<time>"`},
	// etcd allocates pages as its own timing has it.
	{regexp.MustCompile(`("sizeBytes":)[0-9]+`), `$1<bytes>`},
	{regexp.MustCompile(`\b[0-9]+ bytes\b`), "<bytes>"},
	{regexp.MustCompile(`("resourceVersion":)"[0-9]+"`), `$1"<rv>"`},
	{regexp.MustCompile(`("observedGeneration":)[0-9]+`), `$1<n>`},
}

// Dump is the canonical form of everything in the tenant's namespace and of the controller's records, one line an object.
func Dump(ctx context.Context, t *harness.Tenant) ([]string, error) {
	var lines []string
	for _, namespace := range []string{t.Namespace, harness.SystemNamespace} {
		for _, gvk := range kinds {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			if err := t.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
			}
			for i := range list.Items {
				line, err := canonical(&list.Items[i], t.Namespace)
				if err != nil {
					return nil, err
				}
				lines = append(lines, line)
			}
		}
	}
	sort.Strings(lines)
	return lines, nil
}

func canonical(o *unstructured.Unstructured, namespace string) (string, error) {
	for _, path := range volatile {
		unstructured.RemoveNestedField(o.Object, path...)
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

// quiet replaces all noise.
func quiet(s string) string {
	for _, n := range noise {
		s = n.pattern.ReplaceAllString(s, n.as)
	}
	return s
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
