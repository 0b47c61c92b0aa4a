package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
)

// Keys is an etcd's whole key space: key to value.
type Keys map[string]string

// ReadKeys reads every live key.
func ReadKeys(ctx context.Context, c *clientv3.Client) (Keys, error) {
	r, err := c.Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		return nil, fmt.Errorf("read every key: %w", err)
	}
	keys := make(Keys, len(r.Kvs))
	for _, kv := range r.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	return keys, nil
}

// Write puts n keys below a prefix; their values tell the round.
func Write(ctx context.Context, c *clientv3.Client, prefix, round string, n int) error {
	for i := range n {
		if _, err := c.Put(ctx, fmt.Sprintf("%s/%05d", prefix, i), fmt.Sprintf("%s-%05d", round, i)); err != nil {
			return fmt.Errorf("write key %d below %s: %w", i, prefix, err)
		}
	}
	return nil
}

// Diff says how two key spaces differ, or nothing.
func (k Keys) Diff(other Keys) string {
	var lost, added, changed []string
	for _, key := range slices.Sorted(maps.Keys(k)) {
		switch value, there := other[key]; {
		case !there:
			lost = append(lost, key)
		case value != k[key]:
			changed = append(changed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(other)) {
		if _, there := k[key]; !there {
			added = append(added, key)
		}
	}
	if len(lost)+len(added)+len(changed) == 0 {
		return ""
	}
	return fmt.Sprintf("%d keys lost%s, %d added%s, %d changed%s", len(lost), first(lost), len(added), first(added), len(changed), first(changed))
}

func first(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf(" (first %q)", keys[0])
}

// Resolve maps every name of a tenant's etcd to the environment's front, which routes by the name that the TLS client asks for.
func (p *Platform) Resolve(string) string { return p.Front.Addr() }

// Revisions asks each member of the tenant's etcd for its revision, by its own name.
func (t *Tenant) Revisions(ctx context.Context) (map[string]int64, error) {
	config, _, err := kamaji.TLSFromDataStore(ctx, t.Client, t.Namespace, kamaji.RootUser)
	if err != nil {
		return nil, err
	}
	members := &etcdv1alpha2.EtcdMemberList{}
	if err := t.Client.List(ctx, members, client.InNamespace(t.Namespace)); err != nil {
		return nil, fmt.Errorf("list EtcdMembers: %w", err)
	}
	revisions := map[string]int64{}
	for i := range members.Items {
		name := members.Items[i].Name
		host := fmt.Sprintf("%s.%s.%s.svc", name, ReleaseName, t.Namespace)
		if revisions[name], err = t.revision(ctx, host, config); err != nil {
			return nil, fmt.Errorf("revision of member %s: %w", name, err)
		}
	}
	return revisions, nil
}

func (t *Tenant) revision(ctx context.Context, host string, config *tls.Config) (int64, error) {
	config = config.Clone()
	config.ServerName = host
	endpoint := "https://" + host + ":2379"
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", t.Front.Addr())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(dialer)}})
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := c.Status(ctx, endpoint)
	if err != nil {
		return 0, err
	}
	return status.Header.Revision, nil
}

// DataStoreClient is a client made only from the tenant's live DataStore.
func (t *Tenant) DataStoreClient(ctx context.Context) (*clientv3.Client, error) {
	return kamaji.ClientFromDataStore(ctx, t.Client, t.Namespace, t.Resolve)
}
