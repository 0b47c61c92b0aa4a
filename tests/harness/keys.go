package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// DataStoreClient is a client made only from the tenant's live DataStore.
func (t *Tenant) DataStoreClient(ctx context.Context) (*clientv3.Client, error) {
	return kamaji.ClientFromDataStore(ctx, t.Client, t.Namespace, t.Resolve)
}
