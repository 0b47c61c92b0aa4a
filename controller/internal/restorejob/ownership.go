package restorejob

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/internal/record"
)

// FieldManager is the name under which a restore writes.
const FieldManager = "cozy-etcd-restore"

// fieldPath is a place in a set of managed fields.
type fieldPath []string

// What a restore adds to the captured object, and therefore owns.
var (
	bootstrapPath = fieldPath{"f:spec", "f:bootstrap"}
	markPath      = fieldPath{"f:metadata", "f:annotations", "f:" + backupsv1alpha1.AnnotationRestoredBy}
	deadlinePath  = fieldPath{"f:spec", "f:progressDeadlineSeconds"}
)

// wantedFields says who has to own the fields of a recreated cluster: whoever owned them before, and this restore only what it added. Whoever creates an
// object owns all of it, and what nobody else owns, or what somebody owns besides, a server-side apply of the chart could never remove again.
//
// Entries of subresources, and of managers that came after the recreation, stay as they are.
func wantedFields(live *unstructured.Unstructured, r *record.Record) []metav1.ManagedFieldsEntry {
	captured := (&unstructured.Unstructured{Object: r.Cluster}).GetManagedFields()
	var wanted []metav1.ManagedFieldsEntry
	restored := map[string]bool{}
	for _, entry := range captured {
		if entry.Subresource != "" || entry.Manager == FieldManager {
			continue
		}
		restored[fieldsKey(entry)] = true
		wanted = append(wanted, mapFields(entry, func(fields map[string]any) { remove(fields, bootstrapPath); remove(fields, markPath) }))
	}
	keep := []fieldPath{bootstrapPath, markPath}
	if deadlineRaised(live, r) {
		keep = append(keep, deadlinePath)
	}
	for _, entry := range live.GetManagedFields() {
		switch {
		case entry.Subresource == "" && entry.Manager == FieldManager:
			wanted = append(wanted, mapFields(entry, func(fields map[string]any) { only(fields, keep) }))
		case !restored[fieldsKey(entry)]:
			wanted = append(wanted, entry)
		}
	}
	return wanted
}

// ownedAsWanted compares without times, which the API server sets.
func ownedAsWanted(live *unstructured.Unstructured, r *record.Record) bool {
	return reflect.DeepEqual(fieldSets(live.GetManagedFields()), fieldSets(wantedFields(live, r)))
}

func fieldsKey(e metav1.ManagedFieldsEntry) string {
	return string(e.Operation) + " " + e.Manager + " " + e.APIVersion + " " + e.Subresource
}

func fieldSets(entries []metav1.ManagedFieldsEntry) map[string]any {
	sets := map[string]any{}
	for _, e := range entries {
		if fields := decodeFields(e); len(fields) > 0 {
			sets[fieldsKey(e)] = fields
		}
	}
	return sets
}

func decodeFields(e metav1.ManagedFieldsEntry) map[string]any {
	var fields map[string]any
	if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

func mapFields(e metav1.ManagedFieldsEntry, change func(map[string]any)) metav1.ManagedFieldsEntry {
	fields := decodeFields(e)
	if fields == nil {
		return e
	}
	change(fields)
	raw, err := json.Marshal(fields)
	if err != nil {
		return e
	}
	e.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return e
}

func remove(fields map[string]any, path fieldPath) {
	for len(path) > 1 {
		next, ok := fields[path[0]].(map[string]any)
		if !ok {
			return
		}
		fields, path = next, path[1:]
	}
	delete(fields, path[0])
}

// only drops everything but what lies at or below the given paths.
func only(fields map[string]any, keep []fieldPath) {
	for key, value := range fields {
		var below []fieldPath
		whole := false
		for _, path := range keep {
			if path[0] != key {
				continue
			}
			if len(path) == 1 {
				whole = true
			}
			below = append(below, path[1:])
		}
		next, isMap := value.(map[string]any)
		switch {
		case whole:
		case len(below) == 0 || !isMap:
			delete(fields, key)
		default:
			if only(next, below); len(next) == 0 {
				delete(fields, key)
			}
		}
	}
}
