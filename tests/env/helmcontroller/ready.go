package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// errStalled ends a wait at once: the object says that it will not get there by itself.
var errStalled = errors.New("stalled")

// waitCurrent waits until every object is current by the generic rules of kstatus, which Helm 4 applies to custom resources too.
func waitCurrent(resources kube.ResourceList, timeout time.Duration) error {
	var why string
	err := poll(timeout, func() (bool, error) {
		for _, info := range resources {
			pending, err := pendingReason(info)
			if err != nil {
				return false, err
			}
			if pending != "" {
				why = info.ObjectName() + ": " + pending
				return false, nil
			}
		}
		return true, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not ready after %s: %s: %w", timeout, why, err)
	}
	return err
}

func pendingReason(info *resource.Info) (string, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", info.ObjectName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return "", err
	}
	pending, err := generic(&unstructured.Unstructured{Object: content})
	if err != nil {
		return "", fmt.Errorf("%s: %w", info.ObjectName(), err)
	}
	return pending, nil
}

// generic tells why an object is not current yet; "" means it is. An object without status and conditions is current.
func generic(u *unstructured.Unstructured) (string, error) {
	if observed, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); found && observed < u.GetGeneration() {
		return fmt.Sprintf("generation %d is not observed yet (%d is)", u.GetGeneration(), observed), nil
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok {
			continue
		}
		kind, status := condition["type"], condition["status"]
		switch {
		case kind == "Stalled" && status == "True":
			return "", fmt.Errorf("%w: %v", errStalled, condition["message"])
		case kind == "Reconciling" && status == "True", kind == "Ready" && status != "True":
			return fmt.Sprintf("%v is %v: %v", kind, status, condition["message"]), nil
		}
	}
	return "", nil
}
