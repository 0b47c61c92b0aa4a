package contract

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// event is one line of a recorded history: a watch event of the namespace.
type event struct {
	T      float64                   `json:"t"`
	Event  string                    `json:"event"`
	Object unstructured.Unstructured `json:"object"`
}

// recordedKinds are those that a history tells about.
var recordedKinds = []schema.GroupVersionKind{
	{Group: "etcd-operator.cozystack.io", Version: "v1alpha2", Kind: "EtcdCluster"},
	{Group: "etcd-operator.cozystack.io", Version: "v1alpha2", Kind: "EtcdMember"},
	{Group: "etcd-operator.cozystack.io", Version: "v1alpha2", Kind: "EtcdSnapshot"},
	{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "PersistentVolumeClaim"}, {Version: "v1", Kind: "Service"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, {Group: "batch", Version: "v1", Kind: "Job"},
}

// recorder collects what happens in a namespace from now on.
type recorder struct {
	began  time.Time
	mu     sync.Mutex
	events []event
	stops  []func()
	wg     sync.WaitGroup
}

func record(ctx context.Context, c client.WithWatch, namespace string) (*recorder, error) {
	r := &recorder{began: time.Now()}
	for _, kind := range recordedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		w, err := c.Watch(ctx, list, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		r.stops = append(r.stops, w.Stop)
		r.wg.Go(func() { r.collect(w) })
	}
	return r, nil
}

func (r *recorder) collect(w watch.Interface) {
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		r.mu.Lock()
		r.events = append(r.events, event{T: time.Since(r.began).Seconds(), Event: string(e.Type), Object: *o})
		r.mu.Unlock()
	}
}

func (r *recorder) end() []event {
	for _, stop := range r.stops {
		stop()
	}
	r.wg.Wait()
	return r.events
}

// life is what one object went through: distinct states in order, and when each began.
type life struct {
	key     string
	states  []string
	at      []moment
	existed bool // it was there when the recording began
}

type moment struct {
	seconds  float64
	revision int64 // of the API server's store, one order for all kinds
}

// lives sorts events by object. Members are called m1, m2, … by age and everything of theirs after them, as their real names are random.
func lives(events []event, begun float64) map[string]*life {
	names := aliases(events)
	out := map[string]*life{}
	for _, e := range events {
		o := e.Object
		if o.GetKind() == "Event" || o.GetName() == "etcd-headless" {
			continue
		}
		key := o.GetKind() + "/" + names(o.GetName())
		l := out[key]
		if l == nil {
			l = &life{key: key, existed: e.Event == "ADDED" && e.T < begun && stateOf(&o) != ""}
			out[key] = l
		}
		state := stateOf(&o)
		if e.Event == "DELETED" {
			state = "gone"
		}
		if n := len(l.states); n == 0 || l.states[n-1] != state {
			revision, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
			l.states, l.at = append(l.states, state), append(l.at, moment{e.T, revision})
		}
	}
	return out
}

// aliases numbers members by creation and snapshot Pods by appearance.
func aliases(events []event) func(string) string {
	type born struct{ at, name string }
	var members []born
	pods := map[string]string{}
	perJob := map[string]int{}
	for _, e := range events {
		o := e.Object
		switch name := o.GetName(); {
		case o.GetKind() == "EtcdMember" && !slices.ContainsFunc(members, func(b born) bool { return b.name == name }):
			created, _, _ := unstructured.NestedString(o.Object, "metadata", "creationTimestamp")
			members = append(members, born{created, name})
		case o.GetKind() == "Pod" && o.GetLabels()["job-name"] != "" && pods[name] == "":
			job := o.GetLabels()["job-name"]
			perJob[job]++
			pods[name] = fmt.Sprintf("%s-%d", job, perJob[job])
		}
	}
	sort.SliceStable(members, func(i, j int) bool { return members[i].at < members[j].at })
	return func(name string) string {
		if alias := pods[name]; alias != "" {
			return alias
		}
		for i, b := range members {
			if strings.HasSuffix(name, b.name) {
				return strings.TrimSuffix(name, b.name) + "m" + strconv.Itoa(i+1)
			}
		}
		return name
	}
}

// stateOf is what counts of an object: what a controller could decide on, nothing that depends on the machine.
func stateOf(o *unstructured.Unstructured) string {
	var parts []string
	add := func(path ...string) {
		if v, ok, _ := unstructured.NestedFieldNoCopy(o.Object, path...); ok && v != nil && v != int64(0) && v != float64(0) && v != false {
			parts = append(parts, fmt.Sprintf("%s=%v", path[len(path)-1], v))
		}
	}
	switch o.GetKind() {
	case "EtcdCluster":
		parts = append(parts, conditions(o, "Progressing", "Available", "Degraded")...)
		add("status", "readyMembers")
	case "EtcdMember":
		parts = append(parts, conditions(o, "Ready")...)
		add("status", "isVoter")
		add("spec", "dormant")
	case "EtcdSnapshot":
		add("status", "phase")
		parts = append(parts, conditions(o, "Ready")...)
	case "Pod":
		add("status", "phase")
		parts = append(parts, podState(o)...)
	case "Service":
		parts = append(parts, "present")
	case "PersistentVolumeClaim":
		add("status", "phase")
	case "PodDisruptionBudget":
		add("spec", "minAvailable")
	case "Job":
		add("status", "failed")
		parts = append(parts, conditions(o, "SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")...)
	}
	if o.GetDeletionTimestamp() != nil {
		parts = append(parts, "terminating")
	}
	return strings.Join(parts, " ")
}

func conditions(o *unstructured.Unstructured, kinds ...string) []string {
	var out []string
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, kind := range kinds {
		for _, item := range list {
			if c, ok := item.(map[string]any); ok && c["type"] == kind {
				out = append(out, fmt.Sprintf("%s=%v/%v", kind, c["status"], c["reason"]))
			}
		}
	}
	return out
}

func podState(o *unstructured.Unstructured) []string {
	var out []string
	if o.GetLabels()["etcd-operator.cozystack.io/role"] != "" {
		out = append(out, "voter")
	}
	for _, c := range conditions(o, "Ready") {
		if strings.HasPrefix(c, "Ready=True") {
			out = append(out, "ready")
		}
	}
	inits, _, _ := unstructured.NestedSlice(o.Object, "status", "initContainerStatuses")
	for _, item := range inits {
		if c, ok := item.(map[string]any); ok && fmt.Sprint(c["restartCount"]) != "0" {
			out = append(out, "init-restarted")
		}
	}
	return out
}
