package helmcontroller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
)

// difference is one object that is not as the release says; no patch means that it is gone.
type difference struct {
	info  *resource.Info
	patch []byte
}

// drift compares the live objects with a server-side dry run of the manifest, as helm-controller does in either mode.
func (r *run) drift(ctx context.Context, rel *release.Release) ([]difference, error) {
	cfg, err := r.configuration(ctx, stepCorrect, false, false)
	if err != nil {
		return nil, err
	}
	objects, err := cfg.KubeClient.Build(bytes.NewBufferString(rel.Manifest), false)
	if err != nil {
		return nil, fmt.Errorf("parse the release's manifest: %w", err)
	}
	var found []difference
	for _, info := range objects {
		if err := ownedBy(info.Object, rel); err != nil {
			return nil, err
		}
		d, err := compare(info)
		if err != nil {
			return nil, err
		}
		if d != nil {
			found = append(found, *d)
		}
	}
	return found, nil
}

func compare(info *resource.Info) (*difference, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return &difference{info: info}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", info.ObjectName(), err)
	}
	data, err := applyData(info.Object)
	if err != nil {
		return nil, err
	}
	force := true
	helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager(FieldManager).DryRun(true)
	wanted, err := helper.Patch(info.Namespace, info.Name, types.ApplyPatchType, data, &metav1.PatchOptions{Force: &force})
	if err != nil {
		return nil, fmt.Errorf("dry run of %s: %w", info.ObjectName(), err)
	}
	patch, err := mergePatch(live, wanted)
	if err != nil || string(patch) == "{}" {
		return nil, err
	}
	return &difference{info: info, patch: patch}, nil
}

func mergePatch(live, wanted runtime.Object) ([]byte, error) {
	var sides [2][]byte
	for i, obj := range []runtime.Object{live, wanted} {
		obj = obj.DeepCopyObject()
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		m.SetManagedFields(nil)
		m.SetResourceVersion("")
		m.SetGeneration(0)
		if sides[i], err = json.Marshal(obj); err != nil {
			return nil, err
		}
	}
	return jsonpatch.CreateMergePatch(sides[0], sides[1])
}

// correct puts drifted objects right without a new release.
func (r *run) correct(ctx context.Context) error {
	cfg, err := r.configuration(ctx, stepCorrect, false, false)
	if err != nil {
		return err
	}
	last, err := cfg.Releases.Last(r.releaseName())
	if err != nil {
		return err
	}
	diffs, err := r.drift(ctx, last)
	if err != nil {
		return err
	}
	for _, d := range diffs {
		helper := resource.NewHelper(d.info.Client, d.info.Mapping).WithFieldManager(FieldManager)
		if d.patch == nil {
			_, err = helper.Create(d.info.Namespace, true, d.info.Object)
		} else {
			_, err = helper.Patch(d.info.Namespace, d.info.Name, types.MergePatchType, d.patch, nil)
		}
		if err != nil {
			return fmt.Errorf("correct %s: %w", d.info.ObjectName(), err)
		}
	}
	return nil
}

// ownedBy adds Helm's ownership marks, which the stored manifest lacks.
func ownedBy(obj runtime.Object, rel *release.Release) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	labels, annotations := m.GetLabels(), m.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels["app.kubernetes.io/managed-by"] = "Helm"
	annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"] = rel.Name, rel.Namespace
	m.SetLabels(labels)
	m.SetAnnotations(annotations)
	return nil
}
