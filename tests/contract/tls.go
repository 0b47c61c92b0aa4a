package contract

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

func tlsFacts() []Fact {
	return []Fact{
		{"members-advertise-names", "Members advertise https://<member>.etcd.<ns>.svc:2379; clients need a certificate of the client authority.", membersAdvertiseNames},
		{"peers-need-full-name", "A peer certificate without the full form of the reverse name keeps a second member from joining.", peersNeedFullName},
		{"peers-need-short-name", "A peer certificate without the short form keeps a second member from joining.", peersNeedShortName},
		{"bare-service-name-passes", "A bare Service name in the peer certificate passes instead of the full form, through a forward look-up.", bareServiceNamePasses},
		{"leaf-is-reread", "tls.crt is re-read on each handshake.", leafIsReread},
		{"authority-is-read-once", "ca.crt is read once at start: a client of a new authority gets in only after a roll of the member.", authorityIsReadOnce},
		{"tls-is-immutable", "spec.tls, bootstrap and the storage class cannot be changed; the size never shrinks.", tlsIsImmutable},
	}
}

func membersAdvertiseNames(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		ms, err := l.members(ctx)
		if err != nil {
			return err
		}
		err = l.ask(ctx, l.serviceHost(), func(ctx context.Context, c *clientv3.Client) error {
			list, err := c.MemberList(ctx)
			if err != nil {
				return err
			}
			if len(list.Members) != 1 || !slices.Contains(list.Members[0].ClientURLs, "https://"+l.memberHost(ms[0].Name)+":2379") {
				return fmt.Errorf("etcd lists %v", list.Members)
			}
			return nil
		})
		if err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		anonymous, err := l.etcd(call, l.memberHost(ms[0].Name), nil)
		if err != nil {
			return err
		}
		defer func() { _ = anonymous.Close() }()
		if _, err := anonymous.Get(call, "a"); err == nil {
			return errors.New("a client without a certificate gets in")
		}
		return nil
	})
}

func peersNeedFullName(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		l.peerNames = without(l.peerNames, "*."+clusterName+"."+l.ns+".svc."+l.ClusterDomain)
		return l.secondNeverJoins(ctx)
	})
}

func peersNeedShortName(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		l.peerNames = without(l.peerNames, "*."+clusterName+"."+l.ns+".svc")
		return l.secondNeverJoins(ctx)
	})
}

// secondNeverJoins lets a cluster of one grow and sees that it does not.
func (l *lab) secondNeverJoins(ctx context.Context) error {
	c, err := l.running(ctx, 1)
	if err != nil {
		return err
	}
	if err := l.scale(ctx, c, 2); err != nil {
		return err
	}
	err = l.until(ctx, "a second member's Pod that crashes", func() error {
		pods, err := l.memberPods(ctx)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if s := p.Status.ContainerStatuses; len(s) > 0 && (s[0].RestartCount > 0 || s[0].State.Terminated != nil) {
				return nil
			}
		}
		return fmt.Errorf("%d Pods, none has crashed", len(pods))
	})
	if err != nil {
		return err
	}
	return l.stays(ctx, "a cluster of one", func() error { return l.podsReady(ctx, 1) })
}

func bareServiceNamePasses(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		l.peerNames = append(without(l.peerNames, "*."+clusterName+"."+l.ns+".svc."+l.ClusterDomain), clusterName)
		_, err := l.running(ctx, 2)
		return err
	})
}

// serial is the serial number of the certificate that the client Service shows.
func (l *lab) serial(ctx context.Context) (string, error) {
	conn, err := l.Dial(ctx, l.serviceHost())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	pair, err := tls.X509KeyPair(l.clientConfig["tls.crt"], l.clientConfig["tls.key"])
	if err != nil {
		return "", err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: l.serviceHost(), InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}) //nolint:gosec // only looks
	if err := secure.HandshakeContext(ctx); err != nil {
		return "", err
	}
	return secure.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

func leafIsReread(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		before, err := l.serial(ctx)
		if err != nil {
			return err
		}
		next, err := l.clients.issue("etcd-server", bothUsages, l.serverNames...)
		if err != nil {
			return err
		}
		if err := l.secret(ctx, serverSecret, next); err != nil {
			return err
		}
		return l.until(ctx, "the new certificate", func() error {
			if now, err := l.serial(ctx); err != nil || now == before {
				return fmt.Errorf("serial %s as before: %w", now, err)
			}
			return nil
		})
	})
}

// getsIn tries one read with a client certificate.
func (l *lab) getsIn(ctx context.Context, config map[string][]byte) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c, err := l.etcd(call, l.serviceHost(), config)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Get(call, "a")
	return err
}

func authorityIsReadOnce(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		if _, err := l.running(ctx, 1); err != nil {
			return err
		}
		newcomer, err := newAuthority("new clients")
		if err != nil {
			return err
		}
		theirs, err := newcomer.issue("root", bothUsages[1:])
		if err != nil {
			return err
		}
		server, err := l.clients.issue("etcd-server", bothUsages, l.serverNames...)
		if err != nil {
			return err
		}
		server["ca.crt"] = append(append([]byte{}, l.clients.pem...), newcomer.pem...)
		if err := l.secret(ctx, serverSecret, server); err != nil {
			return err
		}
		err = l.stays(ctx, "the refusal of the new authority", func() error {
			if l.getsIn(ctx, theirs) == nil {
				return errors.New("a client of the new authority gets in without a roll")
			}
			return nil
		})
		if err != nil {
			return err
		}
		pods, err := l.memberPods(ctx)
		if err != nil || len(pods) != 1 {
			return fmt.Errorf("%d Pods: %w", len(pods), err)
		}
		if err := l.Client.Delete(ctx, &pods[0]); err != nil {
			return err
		}
		return l.until(ctx, "the new authority to be trusted after a roll", func() error { return l.getsIn(ctx, theirs) })
	})
}

func tlsIsImmutable(ctx context.Context, t *Target) error {
	return withLab(ctx, t, func(ctx context.Context, l *lab) error {
		c := l.cluster(0)
		if err := l.Client.Create(ctx, c); err != nil {
			return err
		}
		class := "other"
		for what, change := range map[string]func(*etcdv1alpha2.EtcdCluster){
			"tls removed": func(c *etcdv1alpha2.EtcdCluster) { c.Spec.TLS = nil },
			"tls changed": func(c *etcdv1alpha2.EtcdCluster) {
				c.Spec.TLS.Client.ServerSecretRef = &corev1.LocalObjectReference{Name: "x"}
			},
			"bootstrap added":     func(c *etcdv1alpha2.EtcdCluster) { c.Spec.Bootstrap = l.fromObject("x", 1).Spec.Bootstrap },
			"medium changed":      func(c *etcdv1alpha2.EtcdCluster) { c.Spec.Storage.Medium = etcdv1alpha2.StorageMediumMemory },
			"storage class added": func(c *etcdv1alpha2.EtcdCluster) { c.Spec.Storage.StorageClassName = &class },
			"size shrunk":         func(c *etcdv1alpha2.EtcdCluster) { c.Spec.Storage.Size = *quantity("512Mi") },
		} {
			edited := c.DeepCopy()
			change(edited)
			if err := l.Client.Patch(ctx, edited, client.MergeFrom(c)); !apierrors.IsInvalid(err) {
				return fmt.Errorf("%s is not refused as invalid: %v", what, err) //nolint:errorlint // nil is possible
			}
		}
		grown := c.DeepCopy()
		grown.Spec.Storage.Size = *quantity("2Gi")
		return l.Client.Patch(ctx, grown, client.MergeFrom(c))
	})
}
