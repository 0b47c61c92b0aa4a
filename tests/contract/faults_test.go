package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator"
	"github.com/cozy-etcd/cozy-etcd/tests/env/etcdoperator/node"
)

// bench is a double with a lab, for what only a double can do: misbehave on request.
type bench struct {
	*lab
	op *etcdoperator.Operator
}

// TestDoubleMisbehaves checks that each fault does what its name says and that the double behaves again afterwards.
func TestDoubleMisbehaves(t *testing.T) {
	e := startEnv(t, true)
	timing := node.Timing{JobDeadline: 4 * time.Second, JobTTL: 2 * time.Second}
	op := start(t, e, etcdoperator.Options{Timing: etcdoperator.Timing{Node: timing}})
	target := targetOf(t, e)
	for name, f := range map[string]func(*bench, context.Context) error{
		"dies while a cluster grows":     (*bench).diesWhileGrowing,
		"dies during a snapshot":         (*bench).diesDuringSnapshot,
		"kills a member":                 (*bench).killsMember,
		"blocks a claim":                 (*bench).blocksClaim,
		"fails the seed":                 (*bench).failsSeed,
		"stops growing":                  (*bench).stopsGrowing,
		"lies about a snapshot":          (*bench).liesAboutSnapshot,
		"ends a Job at its deadline":     (*bench).endsJobAtDeadline,
		"keeps a volume that is to stay": (*bench).keepsRetainedVolume,
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(op.Faults.Clear)
			require.NoError(t, withLab(t.Context(), target, func(ctx context.Context, l *lab) error { return f(&bench{l, op}, ctx) }))
		})
	}
	op.Stop()
	require.Empty(t, etcdChildren(t, e.Dir), "children outlive the double")
}

// etcdChildren lists processes whose command names a file below dir.
func etcdChildren(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		command, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.Contains(string(command), dir+"/operator-") {
			out = append(out, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return out
}

func (b *bench) diesWhileGrowing(ctx context.Context) error {
	if err := b.certificates(ctx); err != nil {
		return err
	}
	c := b.cluster(3)
	if err := b.Client.Create(ctx, c); err != nil {
		return err
	}
	for n := 1; n <= 3; n++ {
		err := b.until(ctx, fmt.Sprintf("member %d", n), func() error {
			ms, err := b.members(ctx)
			if err == nil && len(ms) < n {
				err = fmt.Errorf("%d members", len(ms))
			}
			return err
		})
		if err != nil {
			return err
		}
		b.op.Crash()
		if err := b.op.Recover(ctx); err != nil {
			return err
		}
	}
	return b.whole(ctx, c)
}

func (b *bench) diesDuringSnapshot(ctx context.Context) error {
	if _, err := b.running(ctx, 1); err != nil {
		return err
	}
	s, err := b.snapshot(ctx, "s1", clusterName, b.ns)
	if err != nil {
		return err
	}
	job := &batchv1.Job{}
	if err := b.until(ctx, "the Job", func() error { return b.Client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "s1-snapshot"}, job) }); err != nil {
		return err
	}
	b.op.Crash()
	err = b.until(ctx, "the object, written without the operator", func() error {
		_, _, err := b.object(ctx, b.ns+"/s1.db")
		return err
	})
	return errors.Join(err, b.op.Recover(ctx), b.phase(ctx, s, etcdv1alpha2.SnapshotComplete, etcdv1alpha2.ReasonSnapshotStored))
}

func (b *bench) killsMember(ctx context.Context) error {
	if _, err := b.running(ctx, 1); err != nil {
		return err
	}
	m, err := b.theMember(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(b.put(ctx, "a", "1"), b.op.KillMember(b.ns, m.Name)); err != nil {
		return err
	}
	err = b.until(ctx, "a restarted container", func() error {
		pods, err := b.memberPods(ctx)
		if err != nil || len(pods) != 1 || pods[0].Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("%d Pods: %w", len(pods), err)
		}
		return b.podsReady(ctx, 1)
	})
	if err != nil {
		return err
	}
	return b.ask(ctx, b.serviceHost(), func(ctx context.Context, c *clientv3.Client) error {
		got, err := c.Get(ctx, "a")
		if err == nil && len(got.Kvs) != 1 {
			err = errors.New("the key is gone")
		}
		return err
	})
}

func (b *bench) blocksClaim(ctx context.Context) error {
	b.op.Faults.Update(func(p *etcdoperator.Plan) { p.BlockPVC = func(string, string) bool { return true } })
	c := b.cluster(1)
	if err := errors.Join(b.certificates(ctx), b.Client.Create(ctx, c)); err != nil {
		return err
	}
	if err := b.until(ctx, "a Pod", func() error { return b.podsReady(ctx, 0) }); err != nil {
		return err
	}
	if err := b.stays(ctx, "a Pending claim", func() error { return b.podsReady(ctx, 0) }); err != nil {
		return err
	}
	b.op.Faults.Clear()
	return b.whole(ctx, c)
}

func (b *bench) failsSeed(ctx context.Context) error {
	b.op.Faults.Update(func(p *etcdoperator.Plan) { p.FailSeed = func(string, string) bool { return true } })
	c := b.cluster(1)
	c.Spec.ProgressDeadlineSeconds = ptr.To[int32](3)
	if err := errors.Join(b.certificates(ctx), b.Client.Create(ctx, c)); err != nil {
		return err
	}
	return b.until(ctx, "BootstrapFailed", func() error {
		return b.condition(ctx, c, etcdv1alpha2.ConditionProgressing, etcdv1alpha2.ReasonBootstrapFailed)
	})
}

func (b *bench) stopsGrowing(ctx context.Context) error {
	b.op.Faults.Update(func(p *etcdoperator.Plan) { p.NoMembersBeyond = func(string, string) int { return 1 } })
	c := b.cluster(2)
	if err := errors.Join(b.certificates(ctx), b.Client.Create(ctx, c)); err != nil {
		return err
	}
	if err := b.until(ctx, "one ready member", func() error { return b.podsReady(ctx, 1) }); err != nil {
		return err
	}
	if err := b.stays(ctx, "one member", func() error { _, err := b.theMember(ctx); return err }); err != nil {
		return err
	}
	b.op.Faults.Clear()
	return b.whole(ctx, c)
}

func (b *bench) liesAboutSnapshot(ctx context.Context) error {
	if _, err := b.running(ctx, 1); err != nil {
		return err
	}
	b.op.Faults.Update(func(p *etcdoperator.Plan) {
		p.SnapshotResult = func(*etcdv1alpha2.EtcdSnapshot) *etcdv1alpha2.SnapshotArtifact { return nil }
	})
	lie, err := b.taken(ctx, "s1", b.ns)
	if err != nil {
		return err
	}
	if lie.Status.Artifact != nil {
		return fmt.Errorf("artifact %v", lie.Status.Artifact)
	}
	b.op.Faults.Update(func(p *etcdoperator.Plan) {
		p.FailSnapshot = func(*etcdv1alpha2.EtcdSnapshot) (string, string) { return "AuthLatchTimeout", "on request" }
	})
	s, err := b.snapshot(ctx, "s2", clusterName, b.ns)
	return errors.Join(err, b.phase(ctx, s, etcdv1alpha2.SnapshotFailed, "AuthLatchTimeout"))
}

// endsJobAtDeadline lets the snapshot hang on a certificate until the deadline, which is shortened here, and the Job go after its time to live.
func (b *bench) endsJobAtDeadline(ctx context.Context) error {
	b.serverNames = without(b.serverNames, clusterName+"-client."+b.ns+".svc")
	if _, err := b.running(ctx, 1); err != nil {
		return err
	}
	s, err := b.snapshot(ctx, "s1", clusterName, b.ns)
	if err := errors.Join(err, b.phase(ctx, s, etcdv1alpha2.SnapshotFailed, etcdv1alpha2.ReasonJobFailed)); err != nil {
		return err
	}
	return b.until(ctx, "the Job and its Pods to go", func() error {
		pods := &corev1.PodList{}
		if err := b.Client.List(ctx, pods, client.InNamespace(b.ns), client.MatchingLabels{"job-name": "s1-snapshot"}); err != nil {
			return err
		}
		err := b.Client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "s1-snapshot"}, &batchv1.Job{})
		if !apierrors.IsNotFound(err) || len(pods.Items) > 0 {
			return fmt.Errorf("%d Pods, Job: %v", len(pods.Items), err) //nolint:errorlint // nil is possible
		}
		return nil
	})
}

func (b *bench) keepsRetainedVolume(ctx context.Context) error {
	c, err := b.running(ctx, 1)
	if err != nil {
		return err
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := b.Client.List(ctx, claims, client.InNamespace(b.ns)); err != nil || len(claims.Items) != 1 {
		return fmt.Errorf("%d claims: %w", len(claims.Items), err)
	}
	pv := &corev1.PersistentVolume{}
	key := client.ObjectKey{Name: claims.Items[0].Spec.VolumeName}
	if err := b.Client.Get(ctx, key, pv); err != nil {
		return err
	}
	old := pv.DeepCopy()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if err := errors.Join(b.Client.Patch(ctx, pv, client.MergeFrom(old)), b.Client.Delete(ctx, c)); err != nil {
		return err
	}
	err = b.until(ctx, "a released volume", func() error {
		if err := b.Client.Get(ctx, key, pv); err != nil {
			return err
		}
		if pv.Status.Phase != corev1.VolumeReleased {
			return fmt.Errorf("phase %s", pv.Status.Phase)
		}
		_, err := os.Stat(pv.Spec.HostPath.Path + "/etcd/member")
		return err
	})
	if err != nil {
		return err
	}
	old = pv.DeepCopy()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if err := b.Client.Patch(ctx, pv, client.MergeFrom(old)); err != nil {
		return err
	}
	return b.until(ctx, "the volume to go", func() error {
		if err := b.Client.Get(ctx, key, pv); !apierrors.IsNotFound(err) {
			return fmt.Errorf("volume in phase %s", pv.Status.Phase)
		}
		return nil
	})
}
