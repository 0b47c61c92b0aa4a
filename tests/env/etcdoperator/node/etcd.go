package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cozy-etcd/cozy-etcd/tests/env/ports"
	"github.com/cozy-etcd/cozy-etcd/tests/env/process"
)

// runEtcd runs the container's command as a child process and returns when it has ended.
func (r *runner) runEtcd(c corev1.Container, status *corev1.ContainerStatus) error {
	addrs, err := r.addressesOf(r.key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.folder(), 0o700); err != nil {
		return err
	}
	if err := r.peers.join(r, r.peersOf()); err != nil {
		return err
	}
	child, err := process.Start(r.ctx, process.Spec{
		Name: r.key.Name, Path: r.etcdBinary(c.Image), Dir: r.folder(),
		Args: r.etcdArgs(c, addrs),
	})
	if err != nil {
		return err
	}
	r.change(func() { r.process = child })
	defer r.change(func() { r.process = nil })
	r.started(status)
	r.retry(r.publish)
	r.watch(child, addrs, status)
	if r.ctx.Err() != nil {
		child.Stop(r.opts.Timing.StopGrace)
		return nil
	}
	r.route(addrs, false)
	r.sleep(r.opts.Timing.Relist)
	if r.ctx.Err() != nil {
		return nil // the Pod is deleted before anybody notices
	}
	r.ready(status, false)
	return child.Err()
}

// peersOf are the Pods of the same cluster.
func (r *runner) peersOf() []*runner {
	r.Node.mu.Lock()
	defer r.Node.mu.Unlock()
	var out []*runner
	for _, o := range r.runners {
		if o != r && o.key.Namespace == r.key.Namespace && o.pod.Spec.Subdomain == r.pod.Spec.Subdomain && o.pod.Spec.Subdomain != "" {
			out = append(out, o)
		}
	}
	return out
}

// etcdArgs are the container's arguments with its ports and paths brought to loopback. Names stay.
func (r *runner) etcdArgs(c corev1.Container, a addresses) []string {
	listen := strings.NewReplacer("0.0.0.0:2379", ports.Join(a.client), "0.0.0.0:2380", ports.Join(a.peer), "0.0.0.0:2381", ports.Join(a.metrics))
	args := make([]string, 0, len(c.Command)+2)
	tls := false
	for _, arg := range c.Command[1:] {
		flag, value, _ := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(flag, "--listen-"):
			value = listen.Replace(value)
		case flag == "--initial-cluster" || flag == "--initial-advertise-peer-urls":
			value = ToLoopback(value)
		}
		tls = tls || flag == "--peer-client-cert-auth"
		if value != "" {
			flag += "=" + r.hostPath(c, value)
		}
		args = append(args, flag)
	}
	if tls {
		// The caller's address is loopback for every member, so etcd's own look-up of its name says nothing. The peer network does it with the real names.
		args = append(args, sanFlag(c.Image))
	}
	// Without the strict check etcd takes a further member at once instead of five seconds after the last; the operator double checks quorum itself.
	return append(args, "--unsafe-no-fsync", "--strict-reconfig-check=false", "--logger=zap")
}

func sanFlag(image string) string {
	if strings.Contains(image, ":v3.5.") {
		return "--experimental-peer-skip-client-san-verification"
	}
	return "--peer-skip-client-san-verification"
}

// watch probes readiness until the child ends or the Pod is to end.
func (r *runner) watch(child *process.Process, a addresses, status *corev1.ContainerStatus) {
	r.route(a, false)
	timer := time.NewTimer(r.opts.Timing.ReadinessDelay)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-child.Done():
			return
		case <-r.ctx.Done():
			return
		case <-timer.C:
		}
		healthy := r.probe(a)
		if failures++; healthy {
			failures = 0
		}
		if hold := r.opts.Hooks.HoldReady; healthy && !status.Ready && hold != nil && hold(r.key.Namespace, r.key.Name) {
			healthy = false
		}
		if healthy != status.Ready && (healthy || failures >= 3) {
			r.ready(status, healthy)
			r.route(a, healthy)
			r.retry(r.publish)
		}
		timer.Reset(r.period(status.Ready))
	}
}

// period is short while a change is awaited and long afterwards: many members share few cores.
func (r *runner) period(ready bool) time.Duration {
	if ready {
		return 5 * r.opts.Timing.ProbePeriod
	}
	return r.opts.Timing.ProbePeriod
}

func (r *runner) probe(a addresses) bool {
	ctx, cancel := context.WithTimeout(r.ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/health", a.metrics), nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (r *runner) route(a addresses, ready bool) {
	r.opts.Router.SetMember(r.key.Namespace, r.pod.Labels[ClusterLabel], r.key.Name, ports.Join(a.client), ready)
}
