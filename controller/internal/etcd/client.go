package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// NetDialer dials real servers. Resolve maps "host:port" to the address to connect to; the certificate is still verified against the host.
type NetDialer struct {
	Resolve Resolver
}

var (
	_ Dialer      = NetDialer{}
	_ KeyDialer   = NetDialer{}
	_ AlarmDialer = NetDialer{}
	_ LoginDialer = NetDialer{}
)

// Dial implements Dialer.
func (d NetDialer) Dial(t Target) (Reader, error) {
	r, err := d.dial(t)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (d NetDialer) dial(t Target) (*reader, error) {
	if t.Host == "" || t.Port <= 0 {
		return nil, fmt.Errorf("etcd endpoint %q port %d: both a host and a port are needed", t.Host, t.Port)
	}
	scheme := "http"
	if t.TLS != nil {
		scheme = "https"
	}
	endpoint := scheme + "://" + net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint},
		TLS:       t.TLS,
		Username:  t.User,
		Password:  t.Password,
		// With a password, the login is a part of the dialing.
		DialTimeout: loginTimeout,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				var nd net.Dialer
				return nd.DialContext(ctx, "tcp", d.Resolve.Address(addr))
			}),
		},
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd endpoint %s: %w", endpoint, err)
	}
	return &reader{c: c, endpoint: endpoint}, nil
}

// loginTimeout bounds the login with a password, which is made while dialing.
const loginTimeout = 3 * time.Second

type reader struct {
	c        *clientv3.Client
	endpoint string
}

func (r *reader) Status(ctx context.Context) (Status, error) {
	s, err := r.c.Status(ctx, r.endpoint)
	if err != nil {
		return Status{}, r.wrap("status", err)
	}
	return Status{
		ClusterID: s.Header.ClusterId, MemberID: s.Header.MemberId, Leader: s.Leader, Version: s.Version, Revision: s.Header.Revision,
		DBSize: s.DbSize, DBInUse: s.DbSizeInUse, Learner: s.IsLearner, Errors: s.Errors,
	}, nil
}

func (r *reader) Members(ctx context.Context) ([]Member, error) {
	l, err := r.c.MemberList(ctx)
	if err != nil {
		return nil, r.wrap("member list", err)
	}
	members := make([]Member, 0, len(l.Members))
	for _, m := range l.Members {
		members = append(members, Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner})
	}
	return members, nil
}

func (r *reader) HashKV(ctx context.Context, revision int64) (Hash, error) {
	h, err := r.c.HashKV(ctx, r.endpoint, revision)
	if err != nil {
		return Hash{}, r.wrap("hash", err)
	}
	return Hash{Hash: h.Hash, HashRevision: h.HashRevision, CompactRevision: h.CompactRevision}, nil
}

func (r *reader) CountKeys(ctx context.Context, revision int64) (int64, error) {
	g, err := r.c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithRev(revision))
	if errors.Is(err, rpctypes.ErrCompacted) {
		return 0, r.wrap("key count", ErrCompacted)
	}
	if err != nil {
		return 0, r.wrap("key count", err)
	}
	return g.Count, nil
}

func (r *reader) Close() error {
	if err := r.c.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return r.wrap("close", err)
	}
	return nil
}

func (r *reader) wrap(what string, err error) error {
	return fmt.Errorf("etcd %s of %s: %w", what, r.endpoint, err)
}
