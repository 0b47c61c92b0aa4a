package contract

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func restoreFacts(t *Target) []Fact {
	facts := []Fact{
		{"restore-brings-keys-back", "A cluster recreated from a snapshot has its keys and its revision, not one above it, and a new cluster ID; each member has them.", restoreBringsKeysBack},
		{"restore-takes-bare-database", "A database file without the trailing hash is accepted as a source.", restoreTakesBareDatabase},
		{"restore-from-missing-object", "A missing object lets the seed's init container fail again and again; the cluster shows WaitingForSeed and ClusterUnreachable only.", restoreFromMissingObject},
		{"restored-seed-needs-credentials", "EtcdMember.spec.restore is never cleared: a rebuilt seed Pod does not start without the credentials Secret.", restoredSeedNeedsCredentials},
		{"restore-refuses-memory", "A restore onto memory storage is refused at creation.", restoreRefusesMemory},
	}
	if t.RestoresItsMinorOnly && t.OtherMinor != "" {
		facts = append(facts, Fact{"restore-refuses-other-minor", "Another minor version is refused in the init container.", restoreRefusesOtherMinor})
	}
	return facts
}

// restored recreates the cluster from an object once everything of the old one is gone.
func (l *lab) restored(ctx context.Context, old *etcdv1alpha2.EtcdCluster, key string, replicas int32) (*etcdv1alpha2.EtcdCluster, error) {
	if err := l.Client.Delete(ctx, old); err != nil {
		return nil, err
	}
	for _, list := range []client.ObjectList{&etcdv1alpha2.EtcdClusterList{}, &etcdv1alpha2.EtcdMemberList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}} {
		if err := l.until(ctx, "the old cluster to go", func() error { return l.none(ctx, list) }); err != nil {
			return nil, err
		}
	}
	c := l.fromObject(key, replicas)
	return c, l.Client.Create(ctx, c)
}

func (l *lab) fromObject(key string, replicas int32) *etcdv1alpha2.EtcdCluster {
	c := l.cluster(replicas)
	c.Spec.Bootstrap = &etcdv1alpha2.BootstrapSpec{Restore: &etcdv1alpha2.RestoreSpec{Source: etcdv1alpha2.SnapshotLocation{S3: l.location(key)}}}
	return c
}

// saved is a cluster with one key and a snapshot of it; the key has changed since.
func (l *lab) saved(ctx context.Context) (c *etcdv1alpha2.EtcdCluster, revision int64, err error) {
	if c, err = l.running(ctx, 1); err != nil {
		return nil, 0, err
	}
	if err = l.put(ctx, "a", "kept"); err != nil {
		return nil, 0, err
	}
	err = l.ask(ctx, l.serviceHost(), func(ctx context.Context, e *clientv3.Client) error {
		got, err := e.Get(ctx, "a")
		if err == nil {
			revision = got.Header.Revision
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if _, err = l.taken(ctx, "s1", l.ns); err != nil {
		return nil, 0, err
	}
	return c, revision, l.put(ctx, "a", "lost")
}

func restoreBringsKeysBack(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		old, revision, err := l.saved(ctx)
		if err != nil {
			return err
		}
		c, err := l.restored(ctx, old, l.ns+"/s1.db", 2)
		if err != nil {
			return err
		}
		if err := l.whole(ctx, c); err != nil {
			return err
		}
		if c.Status.ClusterID == old.Status.ClusterID {
			return fmt.Errorf("the cluster ID is still %s", c.Status.ClusterID)
		}
		ms, err := l.members(ctx)
		if err != nil || len(ms) != 2 {
			return fmt.Errorf("%d members: %w", len(ms), err)
		}
		for _, m := range ms {
			if m.Spec.Bootstrap != (m.Spec.Restore != nil) {
				return fmt.Errorf("member %s: bootstrap %v, restore %v", m.Name, m.Spec.Bootstrap, m.Spec.Restore != nil)
			}
			err := l.ask(ctx, l.memberHost(m.Name), func(ctx context.Context, e *clientv3.Client) error {
				got, err := e.Get(ctx, "a")
				if err != nil {
					return err
				}
				if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "kept" || got.Header.Revision != revision {
					return fmt.Errorf("member %s at revision %d (snapshot %d) has %v", m.Name, got.Header.Revision, revision, got.Kvs)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func restoreTakesBareDatabase(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		old, _, err := l.saved(ctx)
		if err != nil {
			return err
		}
		content, _, err := l.object(ctx, l.ns+"/s1.db")
		if err != nil {
			return err
		}
		if err := l.store(ctx, l.ns+"/bare.db", content[:len(content)-sha256.Size], nil); err != nil {
			return err
		}
		c, err := l.restored(ctx, old, l.ns+"/bare.db", 1)
		if err != nil {
			return err
		}
		return l.whole(ctx, c)
	})
}

// initState returns the state of the seed's init container.
func (l *lab) initState(ctx context.Context) (corev1.ContainerStatus, error) {
	pods, err := l.memberPods(ctx)
	if err != nil || len(pods) != 1 || len(pods[0].Status.InitContainerStatuses) != 1 {
		return corev1.ContainerStatus{}, fmt.Errorf("%d member Pods or no init container yet: %w", len(pods), err)
	}
	return pods[0].Status.InitContainerStatuses[0], nil
}

func (l *lab) initFails(ctx context.Context, c *etcdv1alpha2.EtcdCluster) error {
	err := l.until(ctx, "the second failure of the init container", func() error {
		s, err := l.initState(ctx)
		if err != nil || s.RestartCount < 2 {
			return fmt.Errorf("%d restarts: %w", s.RestartCount, err)
		}
		return errors.Join(l.condition(ctx, c, etcdv1alpha2.ConditionAvailable, etcdv1alpha2.ReasonClusterUnreachable),
			l.condition(ctx, c, etcdv1alpha2.ConditionProgressing, etcdv1alpha2.ReasonWaitingForSeed))
	})
	if err != nil {
		return err
	}
	if len(c.Status.Conditions) != 2 || c.Status.ClusterID != "" {
		return fmt.Errorf("cluster ID %q, conditions %s", c.Status.ClusterID, describe(c.Status.Conditions))
	}
	return nil
}

func restoreFromMissingObject(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.fromObject(l.ns+"/nothing.db", 1)
		if err := errors.Join(l.certificates(ctx), l.Client.Create(ctx, c)); err != nil {
			return err
		}
		return l.initFails(ctx, c)
	})
}

func restoreRefusesOtherMinor(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		old, _, err := l.saved(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(l.Client.Delete(ctx, old), l.until(ctx, "the old cluster to go", func() error { return l.none(ctx, &corev1.ServiceList{}) }),
			l.until(ctx, "its members to go", func() error { return l.none(ctx, &corev1.PersistentVolumeClaimList{}) })); err != nil {
			return err
		}
		c := l.fromObject(l.ns+"/s1.db", 1)
		c.Spec.Version = l.OtherMinor
		if err := l.Client.Create(ctx, c); err != nil {
			return err
		}
		return l.initFails(ctx, c)
	})
}

func restoredSeedNeedsCredentials(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		old, _, err := l.saved(ctx)
		if err != nil {
			return err
		}
		c, err := l.restored(ctx, old, l.ns+"/s1.db", 1)
		if err != nil {
			return err
		}
		if err := l.whole(ctx, c); err != nil {
			return err
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: credsSecret}}
		pods, err := l.memberPods(ctx)
		if err != nil || len(pods) != 1 {
			return fmt.Errorf("%d Pods: %w", len(pods), err)
		}
		if err := errors.Join(l.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret), l.Client.Delete(ctx, secret), l.Client.Delete(ctx, &pods[0])); err != nil {
			return err
		}
		err = l.until(ctx, "a seed that waits for the Secret", func() error {
			s, err := l.initState(ctx)
			if err != nil || s.State.Waiting == nil || s.State.Waiting.Reason != "CreateContainerConfigError" {
				return fmt.Errorf("%s: %w", describe(s.State), err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := l.secret(ctx, credsSecret, secret.Data); err != nil {
			return err
		}
		return l.until(ctx, "a whole cluster", func() error {
			if err := l.podsReady(ctx, 1); err != nil {
				return err
			}
			return l.condition(ctx, c, etcdv1alpha2.ConditionAvailable, etcdv1alpha2.ReasonQuorumHealthy)
		})
	})
}

func restoreRefusesMemory(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.fromObject("x.db", 1)
		c.Spec.Storage.Medium = etcdv1alpha2.StorageMediumMemory
		if err := l.Client.Create(ctx, c); !apierrors.IsInvalid(err) {
			return fmt.Errorf("creation is not refused as invalid: %v", err) //nolint:errorlint // nil is possible
		}
		return nil
	})
}
