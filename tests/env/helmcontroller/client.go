package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
)

// clientOptions say how one action writes.
type clientOptions struct {
	serverSide bool // server-side apply with force instead of Helm 3's patches
	migrate    bool // the release was client-side before: hand its fields over to the apply manager first
	log        func(format string, args ...any)
	strike     func(Stage) error // place for faults
}

// helmClient is Helm's Kubernetes client with the second apply method, quicker waits and a place for faults.
type helmClient struct {
	*kube.Client
	opts clientOptions
}

// Build parses without the client-side validation: any server of today validates fields itself, and then Helm 3's validation is only a download.
func (c *helmClient) Build(r io.Reader, _ bool) (kube.ResourceList, error) {
	return c.Client.Build(r, false)
}

// Create creates the objects, kind by kind.
func (c *helmClient) Create(resources kube.ResourceList) (*kube.Result, error) {
	return c.write(func() (*kube.Result, error) {
		if c.opts.serverSide {
			return createAll(resources)
		}
		return c.Client.Create(resources)
	})
}

// Update brings the objects of original to target and deletes those that target no longer has.
func (c *helmClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return c.write(func() (*kube.Result, error) {
		if c.opts.serverSide {
			return c.applyAll(original, target)
		}
		return c.Client.Update(original, target, force)
	})
}

// UpdateThreeWayMerge is what Helm uses to adopt objects that exist already.
func (c *helmClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return c.write(func() (*kube.Result, error) {
		if c.opts.serverSide {
			return c.applyAll(original, target)
		}
		return c.Client.UpdateThreeWayMerge(original, target, force)
	})
}

// DeleteWithPropagationPolicy deletes the objects of an uninstall.
func (c *helmClient) DeleteWithPropagationPolicy(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	if err := c.opts.strike(BeforeWrites); err != nil {
		return nil, []error{err}
	}
	return c.Client.DeleteWithPropagationPolicy(resources, policy)
}

// write never returns a nil result, because Helm reads it also after an error.
func (c *helmClient) write(do func() (*kube.Result, error)) (*kube.Result, error) {
	if err := c.opts.strike(BeforeWrites); err != nil {
		return &kube.Result{}, err
	}
	res, err := do()
	if res == nil {
		res = &kube.Result{}
	}
	if err != nil {
		return res, err
	}
	return res, c.opts.strike(AfterWrites)
}

// Wait waits for readiness in the manner of the Helm that the mode stands for.
func (c *helmClient) Wait(resources kube.ResourceList, timeout time.Duration) error {
	return c.wait(resources, timeout, c.Client.Wait)
}

// WaitWithJobs also waits for Jobs.
func (c *helmClient) WaitWithJobs(resources kube.ResourceList, timeout time.Duration) error {
	return c.wait(resources, timeout, c.Client.WaitWithJobs)
}

func (c *helmClient) wait(resources kube.ResourceList, timeout time.Duration, legacy func(kube.ResourceList, time.Duration) error) error {
	if !c.opts.serverSide {
		return legacy(resources, timeout)
	}
	return waitCurrent(resources, timeout)
}

// WaitForDelete waits until none of the objects is there; Helm's own looks every two seconds.
func (c *helmClient) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	var left string
	err := poll(timeout, func() (bool, error) {
		for _, info := range resources {
			// info.Get would ask for the namespace of each object that is gone, too.
			if _, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name); !apierrors.IsNotFound(err) {
				left = info.ObjectName()
				return false, err
			}
		}
		return true, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s is still there after %s: %w", left, timeout, err)
	}
	return err
}

// poll looks often at first, for what takes a moment, and then as seldom as Helm, for what waits for somebody.
func poll(timeout time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	pause := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.2, Steps: math.MaxInt32, Cap: 2 * time.Second}
	return pause.DelayFunc().Until(ctx, true, false, func(context.Context) (bool, error) { return done() })
}

var (
	_ kube.Interface                    = (*helmClient)(nil)
	_ kube.InterfaceExt                 = (*helmClient)(nil)
	_ kube.InterfaceThreeWayMerge       = (*helmClient)(nil)
	_ kube.InterfaceDeletionPropagation = (*helmClient)(nil)
)
