package kamaji_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kamajiv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/kamaji/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/tests/env/kamaji"
)

func readiness(t *testing.T, ds *kamajiv1alpha1.DataStore, want bool) func() error {
	return func() error {
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(ds), ds); err != nil {
			return err
		}
		if ds.Status.ObservedGeneration != ds.Generation || ds.Status.Ready != want {
			return fmt.Errorf("ready is %v at generation %d of %d", ds.Status.Ready, ds.Status.ObservedGeneration, ds.Generation)
		}
		return nil
	}
}

func TestDataStoreIsReadyOnceItsSecretsExistEvenIfTheyAreEmpty(t *testing.T) {
	s := start(t, kamaji.Current)
	ds := s.dataStore(t)
	eventually(t, readiness(t, ds, false))
	c := meta.FindStatusCondition(ds.Status.Conditions, kamajiv1alpha1.ConditionDataStoreValidation)
	require.NotNil(t, c)
	require.Contains(t, c.Message, "etcd-ca-tls")
	require.Contains(t, ds.Finalizers, kamajiv1alpha1.DataStoreFinalizer)

	tlsSecret(t, s.ns, "etcd-ca-tls", nil, nil)
	tlsSecret(t, s.ns, "etcd-client-tls", nil, nil)
	eventually(t, readiness(t, ds, true))
	_, err := kamaji.ClientFromDataStore(t.Context(), cl, ds.Name, s.resolve)
	require.ErrorContains(t, err, "CA certificate", "ready is a lie while the Secrets are empty")
}

func TestOlderVersionRefusesDataStoreWithoutItsSecrets(t *testing.T) {
	s := start(t, kamaji.Older)
	eventually(t, func() error { // the API server takes a moment to learn of the webhook
		ds := s.newDataStore()
		err := cl.Create(t.Context(), ds)
		if err == nil {
			return errors.Join(errors.New("it was accepted"), cl.Delete(t.Context(), ds))
		}
		return nil
	})
	err := cl.Create(t.Context(), s.newDataStore())
	require.ErrorContains(t, err, "etcd-ca-tls")
	s.secrets(t)
	s.dataStore(t)
}

func TestClientsFromTheDataStore(t *testing.T) {
	s := start(t, kamaji.Current)
	s.secrets(t)
	s.dataStore(t)
	peer := newAuthority(t, "peer CA")
	tlsSecret(t, s.ns, "etcd-peer-ca-tls", peer.pem, peer.keyPEM)

	c, err := kamaji.ClientFromDataStore(t.Context(), cl, s.ns, s.resolve)
	require.NoError(t, err)
	require.NoError(t, probe(t, c))

	bare, endpoints, err := kamaji.TLSWithoutCertificate(t.Context(), cl, s.ns)
	require.NoError(t, err)
	foreign, _, err := kamaji.TLSOfOtherCA(t.Context(), cl, s.ns, key(s.ns, "etcd-peer-ca-tls"))
	require.NoError(t, err)
	good, _, err := kamaji.TLSFromDataStore(t.Context(), cl, s.ns, kamaji.RootUser)
	require.NoError(t, err)
	for _, c := range []struct {
		config *tls.Config
		alert  string
	}{{bare, "certificate required"}, {foreign, "unknown certificate authority"}, {good, ""}} {
		alert, err := kamaji.Refusal(t.Context(), c.config, endpoints, s.resolve)
		require.NoError(t, err)
		require.Equal(t, c.alert, strings.TrimPrefix(alert, "tls: "))
	}
}

// probe writes and reads a key.
func probe(t *testing.T, c *clientv3.Client) error {
	t.Helper()
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := c.Put(ctx, "/probe", "x"); err != nil {
		return err
	}
	_, err := c.Get(ctx, "/probe")
	return err
}

func TestTenantMayTouchItsPrefixOnly(t *testing.T) {
	s := start(t, kamaji.Current)
	s.secrets(t)
	s.dataStore(t)
	tcp := s.tenant(t, "kube-a")
	require.NotEmpty(t, tcp.Status.Storage.Certificate.Checksum)

	root, err := kamaji.ClientFromDataStore(t.Context(), cl, s.ns, s.resolve)
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	enableAuth(t, root)
	tenant, err := kamaji.ClientForUser(t.Context(), cl, s.ns, tcp.Status.Storage.Setup.User, s.resolve)
	require.NoError(t, err)
	defer func() { _ = tenant.Close() }()
	_, err = tenant.Put(t.Context(), "/"+tcp.Status.Storage.Setup.Schema+"/a", "1")
	require.NoError(t, err)
	_, err = tenant.Put(t.Context(), "/other/a", "1")
	require.ErrorContains(t, err, "permission denied")
}

func enableAuth(t *testing.T, root *clientv3.Client) {
	t.Helper()
	_, err := root.UserAddWithOptions(t.Context(), "root", "", &clientv3.UserAddOptions{NoPassword: true})
	require.NoError(t, err)
	_, err = root.RoleAdd(t.Context(), "root")
	require.NoError(t, err)
	_, err = root.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = root.AuthEnable(t.Context())
	require.NoError(t, err)
}

func TestUsedDataStoreIsHeldUntilItsTenantIsGone(t *testing.T) {
	s := start(t, kamaji.Current)
	s.secrets(t)
	ds := s.dataStore(t)
	tcp := s.tenant(t, "kube-a")
	eventually(t, func() error {
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(ds), ds); err != nil || len(ds.Status.UsedBy) != 1 {
			return fmt.Errorf("usedBy %v: %w", ds.Status.UsedBy, err)
		}
		return nil
	})
	require.Equal(t, []string{s.ns + "/kube-a"}, ds.Status.UsedBy)
	c, err := kamaji.ClientFromDataStore(t.Context(), cl, s.ns, s.resolve)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Put(t.Context(), "/"+tcp.Status.Storage.Setup.Schema+"/a", "1")
	require.NoError(t, err)

	require.NoError(t, cl.Delete(t.Context(), ds))
	eventually(t, func() error {
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(ds), ds); err != nil {
			return err
		}
		if !meta.IsStatusConditionFalse(ds.Status.Conditions, kamajiv1alpha1.ConditionDataStoreAllowedDeletion) {
			return errors.New("no condition tells that the deletion is held")
		}
		return nil
	})
	require.NoError(t, cl.Delete(t.Context(), tcp))
	eventually(t, gone(t, tcp))
	eventually(t, gone(t, ds))
	got, err := c.Get(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Zero(t, got.Count)
	users, err := c.UserList(t.Context())
	require.NoError(t, err)
	require.Empty(t, users.Users)
}

func gone(t *testing.T, obj client.Object) func() error {
	return func() error {
		err := cl.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %w", obj.GetName(), err)
	}
}

func TestEvictedAPIServerComesBackAndARestartAnnotationDoesNotLast(t *testing.T) {
	s := start(t, kamaji.Current)
	s.secrets(t)
	s.dataStore(t)
	s.tenant(t, "kube-a")
	eventually(t, s.runningPods(t, "kube-a"))
	before := s.pods(t, "kube-a")
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: before[0].Name}}
	require.NoError(t, cl.SubResource("eviction").Create(t.Context(), &before[0], eviction))
	eventually(t, func() error {
		for _, p := range s.pods(t, "kube-a") {
			if p.UID == before[0].UID {
				return errors.New("the evicted Pod is still there")
			}
		}
		return s.runningPods(t, "kube-a")()
	})

	d := &appsv1.Deployment{}
	require.NoError(t, cl.Get(t.Context(), key(s.ns, "kube-a"), d))
	patched := d.DeepCopy()
	patched.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now"
	require.NoError(t, cl.Patch(t.Context(), patched, client.MergeFrom(d)))
	eventually(t, func() error {
		if err := cl.Get(t.Context(), key(s.ns, "kube-a"), d); err != nil {
			return err
		}
		if _, there := d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"]; there {
			return errors.New("the annotation is still there")
		}
		return nil
	})
}

func TestNewAuthorityReissuesAndOnlyCurrentVersionsRoll(t *testing.T) {
	for name, mode := range map[string]kamaji.Mode{"current": kamaji.Current, "older": kamaji.Older} {
		t.Run(name, func(t *testing.T) {
			s := start(t, mode)
			s.secrets(t)
			s.dataStore(t)
			tcp := s.tenant(t, "kube-a")
			eventually(t, s.runningPods(t, "kube-a"))
			was := tcp.Status.Storage.Certificate.Checksum

			s.renew(t)
			eventually(t, func() error {
				if err := cl.Get(t.Context(), client.ObjectKeyFromObject(tcp), tcp); err != nil {
					return err
				}
				if tcp.Status.Storage.Certificate.Checksum == was {
					return fmt.Errorf("not issued anew: %s", s.double.TenantError(s.ns, "kube-a"))
				}
				return nil
			})
			if mode == kamaji.Current {
				eventually(t, s.allOn(t, tcp.Status.Storage.Certificate.Checksum))
			} else {
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for end := time.Now().Add(time.Second); time.Now().Before(end); <-tick.C {
					require.NoError(t, s.allOn(t, was)())
				}
			}
		})
	}
}

// renew gives the authority another certificate for the same key, as a renewal does; the etcd of the test keeps trusting the key.
func (s *tenancy) renew(t *testing.T) {
	t.Helper()
	s.etcd.renew(t)
	tlsSecret(t, s.ns, "etcd-ca-tls", s.etcd.pem, s.etcd.keyPEM)
}

func (s *tenancy) allOn(t *testing.T, checksum string) func() error {
	return func() error {
		if err := s.runningPods(t, "kube-a")(); err != nil {
			return err
		}
		for _, p := range s.pods(t, "kube-a") {
			if got := p.Annotations[kamaji.AnnotationCertificate]; got != checksum && p.Status.Phase == corev1.PodRunning {
				return fmt.Errorf("pod %s is on %s", p.Name, got)
			}
		}
		return nil
	}
}
