package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// LoginDialer opens connections that read as a client does.
type LoginDialer interface {
	// DialLogin logs in at once where the target has a password, for a few seconds at most.
	DialLogin(target Target) (Login, error)
}

// Login reads as the user of the target: that of its name and password, else that of its certificate's common name where auth is on.
type Login interface {
	// ReadOne reads the first key, without its value. It is linearizable, so it needs quorum, and right to read everything where auth is on. No key at all is
	// no error.
	ReadOne(ctx context.Context) error
	Close() error
}

// DialLogin implements LoginDialer.
func (d NetDialer) DialLogin(t Target) (Login, error) {
	r, err := d.dial(t)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reader) ReadOne(ctx context.Context) error {
	// The range is open at its end: a denied read of one fixed key would not tell whether the user exists.
	if _, err := r.c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithLimit(1), clientv3.WithKeysOnly()); err != nil {
		return r.wrap("read of a key", err)
	}
	return nil
}
