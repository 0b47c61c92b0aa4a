package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// InstallCRDs creates or replaces the CRDs in the YAML files of the folders and waits until the API server serves them. A folder that does not exist is left out.
func (c *Cluster) InstallCRDs(ctx context.Context, dirs ...string) error {
	client, err := apiextensions.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	crds, err := readCRDs(dirs)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, crd := range crds {
		group.Go(func() error {
			if err := applyCRD(ctx, client, crd); err != nil {
				return fmt.Errorf("CRD %s: %w", crd.Name, err)
			}
			if err := awaitEstablished(ctx, client, crd.Name); err != nil {
				return fmt.Errorf("CRD %s was not established: %w", crd.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// parallel keeps the API server's establishing loop busy without flooding it.
const parallel = 8

func readCRDs(dirs []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			crds, err := readFile(file)
			if err != nil {
				return nil, fmt.Errorf("read CRDs of %s: %w", file, err)
			}
			all = append(all, crds...)
		}
	}
	return all, nil
}

func readFile(file string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := dec.Decode(crd); errors.Is(err, io.EOF) {
			return crds, nil
		} else if err != nil {
			return nil, err
		}
		if crd.Kind == "CustomResourceDefinition" {
			crds = append(crds, crd)
		}
	}
}

func applyCRD(ctx context.Context, client apiextensions.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err := api.Create(ctx, crd, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live, err := api.Get(ctx, crd.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	next := crd.DeepCopy()
	next.ResourceVersion = live.ResourceVersion
	_, err = api.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

func awaitEstablished(ctx context.Context, client apiextensions.Interface, name string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, cond := range crd.Status.Conditions {
			if cond.Type == apiextensionsv1.NamesAccepted && cond.Status == apiextensionsv1.ConditionFalse {
				return false, errors.New(cond.Message)
			}
			if cond.Type == apiextensionsv1.Established && cond.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}
