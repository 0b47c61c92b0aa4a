package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyPage is the number of keys that are asked for at a time. Values stay where they are, so a page is small.
const keyPage = 5000

// KeyDialer opens connections that list keys.
type KeyDialer interface {
	DialKeys(target Target) (Keys, error)
}

// Keys lists keys of one server.
type Keys interface {
	// List gives all keys at one revision, the server's own at the first page, without their values. The server answers for itself, so it works without
	// quorum. The error ends the list; ErrCompacted says that the revision was compacted meanwhile. A key is valid until the next one.
	List(ctx context.Context) iter.Seq2[[]byte, error]
	// Revision is that of the list; 0 before its first page.
	Revision() int64
	Close() error
}

// DialKeys implements KeyDialer.
func (d NetDialer) DialKeys(t Target) (Keys, error) {
	r, err := d.dial(t)
	if err != nil {
		return nil, err
	}
	return &keys{reader: r}, nil
}

type keys struct {
	*reader
	revision int64
}

func (k *keys) Revision() int64 { return k.revision }

func (k *keys) List(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := "\x00"
		for {
			page, err := k.page(ctx, from)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range page.Kvs {
				if !yield(kv.Key, nil) {
					return
				}
			}
			if !page.More || len(page.Kvs) == 0 {
				return
			}
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
}

func (k *keys) page(ctx context.Context, from string) (*clientv3.GetResponse, error) {
	options := []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithSerializable(), clientv3.WithLimit(keyPage)}
	if k.revision > 0 {
		options = append(options, clientv3.WithRev(k.revision))
	}
	page, err := k.c.Get(ctx, from, options...)
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil, k.wrap("list of keys", fmt.Errorf("%w: %d", ErrCompacted, k.revision))
	}
	if err != nil {
		return nil, k.wrap("list of keys", err)
	}
	if k.revision == 0 {
		k.revision = page.Header.Revision
	}
	return page, nil
}
