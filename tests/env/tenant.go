package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kube"
)

// TenantAPIServer runs a real API server, without controllers, on the etcd behind a DataStore, as Kamaji would for a tenant: with a certificate signed by the
// DataStore's authority, under the key prefix /<tenant>/. It reaches the cluster namespace/etcd through the front and so outlives a re-creation of that cluster. The
// environment stops it if the caller does not.
func (e *Env) TenantAPIServer(ctx context.Context, tenant, dataStore, namespace string) (*kube.Cluster, error) {
	ca, cert, key, err := kamaji.PEMFromDataStore(ctx, e.Client, dataStore, kamaji.RootUser)
	if err != nil {
		return nil, fmt.Errorf("tenant API server %s: %w", tenant, err)
	}
	dir := filepath.Join(e.Dir, "tenant-"+tenant)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	etcd := &kube.Etcd{
		Endpoints: "https://" + e.Front.ClusterAddr(namespace, "etcd"), Prefix: "/" + tenant,
		CAFile: filepath.Join(dir, "etcd-ca.crt"), CertFile: filepath.Join(dir, "etcd.crt"), KeyFile: filepath.Join(dir, "etcd.key"),
	}
	for path, content := range map[string][]byte{etcd.CAFile: ca, etcd.CertFile: cert, etcd.KeyFile: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	c, err := kube.Start(ctx, kube.Options{Dir: dir, Bin: e.Bin, Etcd: etcd})
	if err != nil {
		return nil, fmt.Errorf("tenant API server %s: %w", tenant, err)
	}
	e.stops.push(c.Stop)
	return c, nil
}
