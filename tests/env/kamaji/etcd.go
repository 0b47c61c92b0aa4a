package kamaji

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
)

const etcdTimeout = 5 * time.Second

// setUpEtcd makes the tenant's user and role where they are missing; both can be made while auth is off.
func (c *Controller) setUpEtcd(ctx context.Context, ds *kamajiv1alpha1.DataStore, ca *authority, p place) error {
	return c.withEtcd(ctx, ds, ca, func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.UserAddWithOptions(ctx, p.user, "", &clientv3.UserAddOptions{NoPassword: true})
		if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			return fmt.Errorf("add user %s: %w", p.user, err)
		}
		if _, err := cl.RoleAdd(ctx, p.schema); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
			return fmt.Errorf("add role %s: %w", p.schema, err)
		}
		prefix := p.prefix()
		if _, err := cl.RoleGrantPermission(ctx, p.schema, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			return fmt.Errorf("grant %s to role %s: %w", prefix, p.schema, err)
		}
		if _, err := cl.UserGrantRole(ctx, p.user, p.schema); err != nil {
			return fmt.Errorf("grant role %s to user %s: %w", p.schema, p.user, err)
		}
		return nil
	})
}

// clearEtcd deletes the tenant's keys, user and role.
func (c *Controller) clearEtcd(ctx context.Context, ds *kamajiv1alpha1.DataStore, ca *authority, p place) error {
	return c.withEtcd(ctx, ds, ca, func(ctx context.Context, cl *clientv3.Client) error {
		if _, err := cl.Delete(ctx, p.prefix(), clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("delete %s: %w", p.prefix(), err)
		}
		if _, err := cl.UserDelete(ctx, p.user); err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
			return fmt.Errorf("delete user %s: %w", p.user, err)
		}
		if _, err := cl.RoleDelete(ctx, p.schema); err != nil && !errors.Is(err, rpctypes.ErrRoleNotFound) {
			return fmt.Errorf("delete role %s: %w", p.schema, err)
		}
		return nil
	})
}

// prefix is what the tenant may touch.
func (p place) prefix() string { return "/" + p.schema + "/" }

func (c *Controller) withEtcd(ctx context.Context, ds *kamajiv1alpha1.DataStore, ca *authority, do func(context.Context, *clientv3.Client) error) error {
	cl, err := ownClient(ctx, c.client, ds, ca, c.opts.Resolve)
	if err != nil {
		return fmt.Errorf("DataStore %s: %w", ds.Name, err)
	}
	defer func() { _ = cl.Close() }()
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if err := do(ctx, cl); err != nil {
		return fmt.Errorf("etcd of DataStore %s: %w", ds.Name, err)
	}
	return nil
}
