package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// bare is an environment without doubles: what is real in it can be tested alone.
func bare(name string) Options {
	return Options{Name: name, NoOperator: true, NoFlux: true, NoKamaji: true}
}

// TestTwoAtOnce uses two environments that started side by side for all that can be seen in a healthy one.
func TestTwoAtOnce(t *testing.T) {
	plain, whole := startBoth(t, bare("plain"), Options{Name: "whole"})
	t.Run("share nothing", func(t *testing.T) { sharesNothing(t, plain, whole) })
	t.Run("CA issuer", func(t *testing.T) { issuesFromCA(t, plain) })
	t.Run("cascade", func(t *testing.T) { cascades(t, plain) })
	t.Run("S3", func(t *testing.T) { storesObjects(t, plain) })
	t.Run("Helm", func(t *testing.T) { runsHelm(t, plain) })
	t.Run("tenant", func(t *testing.T) { tenantComesUp(t, whole) })
	for _, e := range []*Env{plain, whole} {
		addrs := []string{e.Kube.Address(), strings.TrimPrefix(e.S3.Endpoint, "http://"), e.Front.Addr()}
		e.Stop()
		e.Stop()
		require.NoDirExists(t, e.Dir)
		for _, addr := range addrs {
			require.False(t, listening(addr), "%s still listens", addr)
		}
	}
	require.Empty(t, children(t))
}

func startBoth(t *testing.T, options ...Options) (a, b *Env) {
	envs, errs := make([]*Env, len(options)), make([]error, len(options))
	var wg sync.WaitGroup
	for i, o := range options {
		wg.Go(func() {
			began := time.Now()
			if envs[i], errs[i] = Start(t.Context(), o); errs[i] == nil {
				t.Cleanup(envs[i].Stop)
				t.Logf("environment %s is up after %s", o.Name, time.Since(began).Round(time.Millisecond))
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return envs[0], envs[1]
}

func sharesNothing(t *testing.T, a, b *Env) {
	require.NoError(t, a.Namespace(t.Context(), "only-here"))
	err := b.Client.Get(t.Context(), client.ObjectKey{Name: "only-here"}, &corev1.Namespace{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func issuesFromCA(t *testing.T, e *Env) {
	const ns = "certs"
	require.NoError(t, e.Namespace(t.Context(), ns))
	began := time.Now()
	key := &cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, RotationPolicy: cmapi.RotationPolicyNever}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	for _, obj := range []client.Object{
		&cmapi.Issuer{ObjectMeta: meta("self"), Spec: cmapi.IssuerSpec{IssuerConfig: cmapi.IssuerConfig{SelfSigned: &cmapi.SelfSignedIssuer{}}}},
		&cmapi.Issuer{ObjectMeta: meta("ca"), Spec: cmapi.IssuerSpec{IssuerConfig: cmapi.IssuerConfig{CA: &cmapi.CAIssuer{SecretName: "ca-tls"}}}},
		&cmapi.Certificate{ObjectMeta: meta("ca"), Spec: cmapi.CertificateSpec{
			SecretName: "ca-tls", IsCA: true, CommonName: "ca", PrivateKey: key, IssuerRef: cmmeta.IssuerReference{Name: "self"},
		}},
		&cmapi.Certificate{ObjectMeta: meta("leaf"), Spec: cmapi.CertificateSpec{
			SecretName: "leaf-tls", DNSNames: []string{"leaf.example"}, PrivateKey: key, IssuerRef: cmmeta.IssuerReference{Name: "ca"},
		}},
	} {
		require.NoError(t, e.Client.Create(t.Context(), obj))
	}
	secret := &corev1.Secret{}
	require.Eventually(t, func() bool {
		return e.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "leaf-tls"}, secret) == nil && len(secret.Data["tls.crt"]) > 0
	}, 30*time.Second, 50*time.Millisecond)
	require.NotEmpty(t, secret.Data["ca.crt"])
	t.Logf("a leaf of a new CA is there after %s", time.Since(began).Round(time.Millisecond))
}

// cascades deletes an EtcdCluster that owns a member that owns a claim and a Pod, as the operator lays them out.
func cascades(t *testing.T, e *Env) {
	const ns = "cascade"
	ctx := t.Context()
	require.NoError(t, e.Namespace(ctx, ns))
	cluster := &etcdv1alpha2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "etcd"}}
	cluster.Spec.Version = "3.6.11"
	cluster.Spec.Storage.Size = resource.MustParse("1Gi")
	require.NoError(t, e.Client.Create(ctx, cluster))
	member := &etcdv1alpha2.EtcdMember{ObjectMeta: owned(ns, "etcd-aaaaa", cluster, "EtcdCluster")}
	member.Spec.ClusterName, member.Spec.Version = "etcd", "3.6.11"
	member.Spec.Storage.Size = resource.MustParse("1Gi")
	require.NoError(t, e.Client.Create(ctx, member))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: owned(ns, "data-etcd-aaaaa", member, "EtcdMember")}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	require.NoError(t, e.Client.Create(ctx, claim))
	pod := &corev1.Pod{ObjectMeta: owned(ns, "etcd-aaaaa", member, "EtcdMember")}
	pod.Spec.Containers = []corev1.Container{{Name: "etcd", Image: "etcd"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}}}
	require.NoError(t, e.Client.Create(ctx, pod))

	began := time.Now()
	require.NoError(t, e.Client.Delete(ctx, cluster))
	for _, obj := range []client.Object{cluster, member, pod, claim} {
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(e.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj))
		}, 10*time.Second, 20*time.Millisecond, "%T %s stays", obj, obj.GetName())
	}
	t.Logf("cluster, member, Pod and claim are gone after %s", time.Since(began).Round(time.Millisecond))
}

func owned(ns, name string, owner client.Object, kind string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: etcdv1alpha2.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
	}}}
}

func storesObjects(t *testing.T, e *Env) {
	ctx := t.Context()
	require.NoError(t, e.S3.Put(ctx, "a/b.db", []byte("content"), map[string]string{"etcd-snapshot-uid": "1"}))
	keys, err := e.S3.List(ctx, "a/")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b.db"}, keys)
	got, err := e.S3.Get(ctx, "a/b.db")
	require.NoError(t, err)
	require.Equal(t, "content", string(got))
	require.NoError(t, e.S3.Delete(ctx, "a/b.db"))
	there, err := e.S3.Exists(ctx, "a/b.db")
	require.NoError(t, err)
	require.False(t, there)
}

func runsHelm(t *testing.T, e *Env) {
	const ns = "tenant-helm"
	ctx := t.Context()
	require.NoError(t, e.Namespace(ctx, ns))
	root, err := Root()
	require.NoError(t, err)
	chart := filepath.Join(root, "charts", "etcd")
	_, err = e.Helm.Install(ctx, ns, "wrong", chart, nil)
	require.ErrorContains(t, err, "etcd", "the chart's own refusal arrives")

	values := map[string]any{"replicas": 1}
	_, err = e.Helm.Install(ctx, ns, "etcd", chart, values)
	require.NoError(t, err)
	cluster := &etcdv1alpha2.EtcdCluster{}
	key := client.ObjectKey{Namespace: ns, Name: "etcd"}
	require.NoError(t, e.Client.Get(ctx, key, cluster))
	require.Equal(t, "helm", cluster.ManagedFields[0].Manager)

	values["replicas"] = 3
	_, err = e.Helm.Upgrade(ctx, ns, "etcd", chart, values)
	require.NoError(t, err)
	require.NoError(t, e.Client.Get(ctx, key, cluster))
	require.EqualValues(t, 3, *cluster.Spec.Replicas)
	rel, err := e.Helm.Get(ns, "etcd")
	require.NoError(t, err)
	require.Equal(t, 2, rel.Version)

	require.NoError(t, e.Helm.Uninstall(ns, "etcd"))
	require.True(t, apierrors.IsNotFound(e.Client.Get(ctx, key, cluster)))
}

func TestFailedStartNamesThePart(t *testing.T) {
	for part, file := range map[string]string{
		"kubernetes": "kube-apiserver", "kube-controller-manager": "kube-controller-manager", "s3": "versitygw",
	} {
		t.Run(part, func(t *testing.T) {
			o := bare("broken")
			o.NoCertManager = true
			o.Bin = binWithout(t, file)
			_, err := Start(t.Context(), o)
			require.ErrorContains(t, err, fmt.Sprintf("part %q did not start", part))
			require.ErrorContains(t, err, "broken: no such thing", "the log is shown")
			require.Empty(t, children(t))
		})
	}
}

func TestEndOfContextStopsEverything(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := bare("cancelled")
	o.NoCertManager = true
	e, err := Start(ctx, o)
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { return !listening(e.Kube.Address()) && len(children(t)) == 0 }, 10*time.Second, 50*time.Millisecond)
}

// binWithout is a copy of bin, by links, in which one program only complains.
func binWithout(t *testing.T, name string) string {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	root, err := Root()
	require.NoError(t, err)
	bin, err := filepath.EvalSymlinks(defaultBin(root))
	require.NoError(t, err)
	files, err := os.ReadDir(bin)
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range files {
		if f.Name() != name {
			require.NoError(t, os.Symlink(filepath.Join(bin, f.Name()), filepath.Join(dir, f.Name())))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \"broken: no such thing\" >&2; exit 3\n"), 0o700))
	return dir
}

func listening(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// children lists the processes whose parent is this one.
func children(t *testing.T) []string {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var all []string
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		// "pid (name) state ppid ...": the name may hold anything, so fields count from its last bracket.
		_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			all = append(all, string(b))
		}
	}
	return all
}
