package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// ReleaseName is the only name that the tenant chart accepts; the EtcdCluster has it too.
const ReleaseName = "etcd"

// Tenant is a namespace with an etcd installed by Flux.
type Tenant struct {
	*Platform
	Namespace string
}

// InstallTenant makes a namespace with S3 credentials and a HelmRelease of charts/etcd in it. It does not wait.
func (p *Platform) InstallTenant(ctx context.Context, namespace string, interval time.Duration, values map[string]any) (*Tenant, error) {
	if err := p.Env.Namespace(ctx, namespace); err != nil {
		return nil, err
	}
	if err := p.CredentialsSecret(ctx, namespace, credentialsOfExamples); err != nil {
		return nil, err
	}
	t := &Tenant{Platform: p, Namespace: namespace}
	release, err := exampleObject[fluxv2.HelmRelease](p.Root, "flux", "helmrelease.yaml")
	if err != nil {
		return nil, err
	}
	release.Namespace = namespace
	release.Spec.Interval = metav1.Duration{Duration: interval}
	if release.Spec.Values, err = rawValues(values); err != nil {
		return nil, err
	}
	if err := p.Client.Create(ctx, release); err != nil {
		return nil, fmt.Errorf("install the tenant %s: %w", namespace, err)
	}
	return t, nil
}

// Uninstall deletes the release, as a tenant's end does, and does not wait: an etcd that nobody looks at any more costs the next test time.
func (t *Tenant) Uninstall(ctx context.Context) error {
	release := &fluxv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: ReleaseName}}
	return client.IgnoreNotFound(t.Client.Delete(ctx, release))
}

// Quick are values that make a tenant start fast: elliptic keys instead of the default RSA 4096, whose generation takes seconds of a core each.
func Quick(replicas int) map[string]any {
	return map[string]any{"replicas": replicas, "certificates": map[string]any{"privateKey": map[string]any{"algorithm": "ECDSA", "size": 256}}}
}

// SetValues edits the release's values, as a tenant's commit does.
func (t *Tenant) SetValues(ctx context.Context, values map[string]any) error {
	release := &fluxv2.HelmRelease{}
	if err := t.Client.Get(ctx, key(t.Namespace, ReleaseName), release); err != nil {
		return err
	}
	before := release.DeepCopy()
	var err error
	if release.Spec.Values, err = rawValues(values); err != nil {
		return err
	}
	return t.Client.Patch(ctx, release, client.MergeFrom(before))
}

func rawValues(values map[string]any) (*apiextensionsv1.JSON, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return &apiextensionsv1.JSON{Raw: raw}, nil
}

// Cluster reads the tenant's EtcdCluster.
func (t *Tenant) Cluster(ctx context.Context) (*etcdv1alpha2.EtcdCluster, error) {
	c := &etcdv1alpha2.EtcdCluster{}
	return c, t.Client.Get(ctx, key(t.Namespace, ReleaseName), c)
}

// AwaitWhole waits until the operator reports every member of the current generation ready.
func (t *Tenant) AwaitWhole(ctx context.Context, replicas int32, timeout time.Duration) (*etcdv1alpha2.EtcdCluster, error) {
	var last *etcdv1alpha2.EtcdCluster
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		c, err := t.Cluster(ctx)
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		last = c
		p := meta.FindStatusCondition(c.Status.Conditions, etcdv1alpha2.ConditionProgressing)
		return p != nil && p.Status == metav1.ConditionFalse && p.Reason == etcdv1alpha2.ReasonReconciled && p.ObservedGeneration == c.Generation &&
			c.Status.ReadyMembers == replicas, nil
	})
	if err != nil {
		return nil, fmt.Errorf("the etcd of %s is not whole with %d members after %s: %w; last seen: %s", t.Namespace, replicas, timeout, err, describe(last))
	}
	return last, nil
}

func describe(c *etcdv1alpha2.EtcdCluster) string {
	if c == nil {
		return "no EtcdCluster"
	}
	s := fmt.Sprintf("readyMembers=%d", c.Status.ReadyMembers)
	for _, cond := range c.Status.Conditions {
		s += fmt.Sprintf(" %s=%s/%s", cond.Type, cond.Status, cond.Reason)
	}
	return s
}

// credentialsOfExamples is the Secret that examples/backup/strategy.yaml names.
const credentialsOfExamples = "etcd-backup-credentials"

// Example reads a file of examples/ as objects.
func Example(root string, path ...string) ([]*unstructured.Unstructured, error) {
	raw, err := os.ReadFile(filepath.Join(append([]string{root, "examples"}, path...)...))
	if err != nil {
		return nil, err
	}
	return Parse(string(raw))
}
