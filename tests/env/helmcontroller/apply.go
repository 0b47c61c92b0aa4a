package helmcontroller

import (
	"encoding/json"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/csaupgrade"
)

// apply writes one rendered object with server-side apply, taking conflicting fields over, as Flux does since 2.7 with Helm 4. Fields that the object no longer has are released.
func apply(info *resource.Info) error {
	data, err := applyData(info.Object)
	if err != nil {
		return fmt.Errorf("encode %s: %w", info.ObjectName(), err)
	}
	force := true
	helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(FieldManager).WithFieldValidation(metav1.FieldValidationStrict)
	obj, err := helper.Patch(info.Namespace, info.Name, types.ApplyPatchType, data, &metav1.PatchOptions{Force: &force})
	if err != nil {
		return fmt.Errorf("server-side apply of %s in namespace %q: %w", info.ObjectName(), info.Namespace, err)
	}
	return info.Refresh(obj, true)
}

// applyData is the object without what the server adds, which an apply request must not carry.
func applyData(obj runtime.Object) ([]byte, error) {
	obj = obj.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(nil)
	m.SetResourceVersion("")
	m.SetUID("")
	m.SetGeneration(0)
	return json.Marshal(obj)
}

// createAll applies objects that are expected to be new.
func createAll(resources kube.ResourceList) (*kube.Result, error) {
	res := &kube.Result{}
	for _, info := range resources {
		if err := apply(info); err != nil {
			return res, err
		}
		res.Created = append(res.Created, info)
	}
	return res, nil
}

// applyAll applies target and deletes what only original has, unless it is to be kept.
func (c *helmClient) applyAll(original, target kube.ResourceList) (*kube.Result, error) {
	res := &kube.Result{}
	var failed []error
	for _, info := range target {
		created, err := c.applyOne(info)
		if err != nil {
			failed = append(failed, err)
		}
		if created {
			res.Created = append(res.Created, info)
		} else {
			res.Updated = append(res.Updated, info)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return res, err
	}
	for _, info := range original.Difference(target) {
		if deleted, err := prune(info); err != nil {
			return res, err
		} else if deleted {
			res.Deleted = append(res.Deleted, info)
		}
	}
	return res, nil
}

func (c *helmClient) applyOne(info *resource.Info) (created bool, err error) {
	helper := resource.NewHelper(info.Client, info.Mapping)
	live, err := helper.Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return true, apply(info)
	}
	if err != nil {
		return false, fmt.Errorf("get %s: %w", info.ObjectName(), err)
	}
	if c.opts.migrate {
		if err := handOver(helper, info, live); err != nil {
			return false, err
		}
	}
	return false, apply(info)
}

// handOver turns the fields that client-side releases own by Update into fields owned by Apply; without it a removed field would live on under the old entry.
func handOver(helper *resource.Helper, info *resource.Info, live runtime.Object) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldManager), FieldManager)
	if err != nil || patch == nil {
		return err
	}
	if _, err := helper.Patch(info.Namespace, info.Name, types.JSONPatchType, patch, nil); err != nil {
		return fmt.Errorf("hand managed fields of %s over to server-side apply: %w", info.ObjectName(), err)
	}
	return nil
}

// prune deletes an object that the chart no longer renders, except one that carries Helm's keep policy.
func prune(info *resource.Info) (bool, error) {
	if err := info.Get(); err != nil {
		return false, ignoreNotFound(err)
	}
	m, err := meta.Accessor(info.Object)
	if err != nil {
		return false, err
	}
	if m.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
		return false, nil
	}
	background := metav1.DeletePropagationBackground
	_, err = resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{PropagationPolicy: &background})
	return err == nil, ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
