package restorejob

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/log"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	fluxv2 "github.com/cozy-etcd/cozy-etcd/controller/api/flux/v2"
)

// maxRelease bounds an unpacked Helm record.
const maxRelease = 32 << 20

// helmRelease is the newest revision of the release that Flux deployed; nil where none is known.
func (w *world) helmRelease() *fluxv2.Snapshot {
	if w.release == nil {
		return nil
	}
	for i := range w.release.typed.Status.History {
		if s := &w.release.typed.Status.History[i]; s.Status == "deployed" || s.Status == "superseded" {
			return s
		}
	}
	return nil
}

// manifestOf reads the EtcdCluster out of the Helm release's manifest; nil where there is none, or none that can be read. Secrets are read by name only, so
// the revision comes from the HelmRelease.
func (r *Reconciler) manifestOf(ctx context.Context, w *world) (map[string]any, error) {
	release := w.helmRelease()
	if release == nil {
		return nil, nil
	}
	namespace := w.release.typed.Status.StorageNamespace
	if namespace == "" {
		namespace = w.job.Namespace
	}
	if namespace != w.job.Namespace {
		return nil, nil
	}
	secret := &corev1.Secret{}
	name := fmt.Sprintf("sh.helm.release.v1.%s.v%d", release.Name, release.Version)
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Helm's record %s: %w", name, err)
	}
	manifest, err := manifestIn(secret.Data["release"])
	if err == nil {
		var cluster map[string]any
		if cluster, err = clusterIn(manifest, w.application()); err == nil {
			return cluster, nil
		}
	}
	log.FromContext(ctx).Info("Helm's record cannot be read, so the cluster's spec is not taken from it", "secret", name, "problem", err.Error())
	return nil, nil
}

// manifestIn unpacks a Helm record: JSON, compressed, in base64.
func manifestIn(data []byte) (string, error) {
	packed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return "", errors.New("it is not in base64")
	}
	raw := packed
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b, 0x08}) {
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return "", err
		}
		if raw, err = io.ReadAll(io.LimitReader(z, maxRelease)); err != nil {
			return "", err
		}
	}
	var release struct {
		Manifest string `json:"manifest"`
	}
	if err := json.Unmarshal(raw, &release); err != nil {
		return "", errors.New("it is no JSON")
	}
	return release.Manifest, nil
}

func clusterIn(manifest, name string) (map[string]any, error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifest)), 4096)
	for {
		var object map[string]any
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		if object["kind"] == clusterKind.Kind && metadata["name"] == name && object["apiVersion"] == etcdv1alpha2.GroupVersion.String() {
			return jsonTypes(object)
		}
	}
}
