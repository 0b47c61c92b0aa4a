package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// errWaiting keeps a container from starting; the reason is the one a kubelet shows.
type errWaiting struct{ reason, message string }

func (e errWaiting) Error() string { return e.reason + ": " + e.message }

// attempt runs a container once, after whatever keeps it from starting has passed, and returns its exit code.
func (r *runner) attempt(c corev1.Container, status *corev1.ContainerStatus) (time.Time, int32) {
	env, ok := r.prepare(c, status)
	if !ok {
		return time.Now(), 1
	}
	at := time.Now()
	if hold := r.opts.Hooks.HoldContainer; hold != nil && hold(r.key.Namespace, r.key.Name, c.Name) {
		return at, 1
	}
	var err error
	if strings.HasSuffix(c.Command[0], "/manager") {
		r.started(status)
		if status.Name == snapshotContainer {
			r.ready(status, true)
		}
		// A container that ends at once is never seen running, as on a real node.
		shown := time.AfterFunc(agentShownAfter, func() { _ = r.publish(r.ctx) })
		err = r.runAgent(c, env)
		shown.Stop()
	} else {
		err = r.runEtcd(c, status)
	}
	if err != nil && r.ctx.Err() == nil {
		return at, 1
	}
	return at, 0
}

const (
	snapshotContainer = "snapshot-agent"
	agentShownAfter   = 500 * time.Millisecond
)

// prepare waits for image and environment; false means that the Pod is to end.
func (r *runner) prepare(c corev1.Container, status *corev1.ContainerStatus) (map[string]string, bool) {
	shown := ""
	for r.ctx.Err() == nil {
		env, err := r.environment(r.ctx, c)
		if err == nil {
			err = r.pulled(c)
		}
		if err == nil {
			return env, true
		}
		var waiting errWaiting
		if errors.As(err, &waiting) && shown != waiting.reason {
			shown = waiting.reason
			r.change(func() {
				status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting.reason, Message: waiting.message}}
			})
			r.retry(r.publish)
		}
		r.sleep(4 * recheck)
	}
	return nil, false
}

// pulled fails for an etcd version without a binary, as an image that cannot be pulled.
func (r *runner) pulled(c corev1.Container) error {
	if c.Command[0] != "etcd" {
		return nil
	}
	if _, err := os.Stat(r.etcdBinary(c.Image)); err != nil {
		return errWaiting{"ErrImagePull", fmt.Sprintf("failed to pull image %q: not found", c.Image)}
	}
	return nil
}

func (r *runner) etcdBinary(image string) string {
	_, tag, _ := strings.Cut(filepath.Base(image), ":")
	return filepath.Join(r.opts.Bin, "etcd-"+strings.TrimPrefix(tag, "v"))
}

func (r *runner) environment(ctx context.Context, c corev1.Container) (map[string]string, error) {
	env := make(map[string]string, len(c.Env))
	for _, e := range c.Env {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			env[e.Name] = e.Value
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		secret := &corev1.Secret{}
		err := r.client.Get(ctx, types.NamespacedName{Namespace: r.key.Namespace, Name: ref.Name}, secret)
		if apierrors.IsNotFound(err) {
			return nil, errWaiting{"CreateContainerConfigError", fmt.Sprintf("secret %q not found", ref.Name)}
		}
		if err != nil {
			return nil, err
		}
		value, ok := secret.Data[ref.Key]
		if !ok {
			return nil, errWaiting{"CreateContainerConfigError", fmt.Sprintf("couldn't find key %s in Secret %s/%s", ref.Key, r.key.Namespace, ref.Name)}
		}
		env[e.Name] = string(value)
	}
	return env, nil
}

// runAgent runs the operator's own image: a function of this process.
func (r *runner) runAgent(c corev1.Container, env map[string]string) error {
	for _, name := range []string{"ETCD_INITIAL_CLUSTER", "ETCD_PEER_URLS"} {
		env[name] = ToLoopback(env[name])
	}
	out, err := r.opts.Agent.Run(r.ctx, c.Command[1], env, func(path string) string { return r.hostPath(c, path) })
	if err != nil {
		out += err.Error() + "\n"
	}
	r.appendLog(r.key, out)
	return err
}
