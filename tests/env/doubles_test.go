package env

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/env/helmcontroller"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
)

// TestTenantThroughTheDoubles installs the tenant chart by a HelmRelease in either apply method and puts a tenant control plane on its DataStore.
func TestTenantThroughTheDoubles(t *testing.T) {
	e, err := Start(t.Context(), Options{Name: "tenant", NoS3: true})
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	for name, serverSide := range map[string]bool{"server-side": true, "client-side": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, e.Namespace(t.Context(), name))
			began := time.Now()
			hr := tenantRelease(t, e, name, serverSide)
			awaitThat(t, func() error { return releaseReady(t.Context(), e, hr) })
			t.Logf("Helm was done after %s", time.Since(began).Round(10*time.Millisecond))
			awaitThat(t, func() error { return e.reads(t.Context(), name) })
			t.Logf("the DataStore's client got through after %s", time.Since(began).Round(10*time.Millisecond))
			controlPlane(t, e, name)
			staysQuiet(t, e, name)
		})
	}
}

func tenantRelease(t *testing.T, e *Env, ns string, serverSide bool) *fluxv2.HelmRelease {
	t.Helper()
	hr := &fluxv2.HelmRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "etcd"},
		Spec: fluxv2.HelmReleaseSpec{
			ChartRef: &fluxv2.ChartRef{Kind: "ExternalArtifact", Name: "etcd"},
			Interval: metav1.Duration{Duration: time.Second},
			Install:  &fluxv2.Install{ServerSideApply: &serverSide},
			// The default keys are RSA of 4096 bits, which takes two busy cores long.
			Values: &apiextensionsv1.JSON{Raw: []byte(`{"replicas":1,"certificates":{"privateKey":{"algorithm":"ECDSA","size":256}}}`)},
		},
	}
	require.NoError(t, e.Client.Create(t.Context(), hr))
	return hr
}

func releaseReady(ctx context.Context, e *Env, hr *fluxv2.HelmRelease) error {
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(hr), hr); err != nil {
		return err
	}
	for _, c := range hr.Status.Conditions {
		if c.Type == fluxv2.ConditionReady && c.Status == metav1.ConditionTrue && helmcontroller.Idle(hr) {
			return nil
		}
	}
	return fmt.Errorf("not ready: %+v", hr.Status.Conditions)
}

// reads does what a consumer of the DataStore does.
func (e *Env) reads(ctx context.Context, dataStore string) error {
	c, err := kamaji.ClientFromDataStore(ctx, e.Client, dataStore, func(string) string { return e.Front.Addr() })
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = c.Get(ctx, "/anything")
	return err
}

func controlPlane(t *testing.T, e *Env, ns string) {
	t.Helper()
	tcp := &kamajiv1alpha1.TenantControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kube"},
		Spec: kamajiv1alpha1.TenantControlPlaneSpec{
			DataStore: ns, Kubernetes: kamajiv1alpha1.KubernetesSpec{Version: "v1.34.0"}, NetworkProfile: &kamajiv1alpha1.NetworkProfile{},
			ControlPlane: kamajiv1alpha1.ControlPlane{Service: kamajiv1alpha1.ControlPlaneService{ServiceType: "ClusterIP"}},
		},
	}
	require.NoError(t, e.Client.Create(t.Context(), tcp))
	ds := &kamajiv1alpha1.DataStore{}
	awaitThat(t, func() error {
		if err := e.Client.Get(t.Context(), types.NamespacedName{Name: ns}, ds); err != nil {
			return err
		}
		if len(ds.Status.UsedBy) != 1 {
			return fmt.Errorf("DataStore is used by %v; %s", ds.Status.UsedBy, e.Kamaji.TenantError(ns, "kube"))
		}
		return nil
	})
	require.True(t, ds.Status.Ready)
}

// staysQuiet watches three intervals of the release: Helm must find nothing to do.
func staysQuiet(t *testing.T, e *Env, ns string) {
	t.Helper()
	ec := &etcdv1alpha2.EtcdCluster{}
	require.NoError(t, e.Client.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "etcd"}, ec))
	generation := ec.Generation
	hr := &fluxv2.HelmRelease{}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); pause(t, 200*time.Millisecond) {
		require.NoError(t, e.Client.Get(t.Context(), client.ObjectKeyFromObject(ec), ec))
		require.NoError(t, e.Client.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "etcd"}, hr))
		require.Equal(t, generation, ec.Generation)
		require.Equal(t, 1, hr.Status.History[0].Version)
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(d):
	}
}

func awaitThat(t *testing.T, check func() error) {
	t.Helper()
	var err error
	deadline := time.Now().Add(90 * time.Second)
	for err = check(); err != nil && time.Now().Before(deadline); err = check() {
		pause(t, 100*time.Millisecond)
	}
	require.NoError(t, err)
}
