package record

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	documentKey = "record.json"
	clusterKey  = "cluster.json.gz"
	// maxCluster bounds what is read back; the API server's own limit for an object is about a tenth of it.
	maxCluster = 16 << 20
)

// Labels and annotations of a record. The namespace is a label so that records can be listed by it; a job's name may be too long for one.
const (
	LabelKind           = "cozy-etcd.io/record"
	KindRestore         = "restore"
	LabelNamespace      = "cozy-etcd.io/namespace"
	AnnotationRestore   = "cozy-etcd.io/restorejob"
	AnnotationDescribes = "cozy-etcd.io/application"
)

// SetCluster stores the captured object in the record together with its digest.
func (r *Record) SetCluster(object map[string]any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode the captured cluster: %w", err)
	}
	r.Cluster, r.SHA256 = object, digest(raw)
	return nil
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func (r *Record) encode(namespace string) (*corev1.ConfigMap, error) {
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(r.Cluster)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: Name(r.Job.UID), ResourceVersion: r.resourceVersion,
			Labels: map[string]string{LabelKind: KindRestore, LabelNamespace: r.Job.Namespace},
			Annotations: map[string]string{
				AnnotationRestore:   r.Job.Namespace + "/" + r.Job.Name,
				AnnotationDescribes: r.Job.Namespace + "/" + r.Application,
			},
		},
		Data:       map[string]string{documentKey: string(document)},
		BinaryData: map[string][]byte{clusterKey: packed.Bytes()},
	}, nil
}

func decode(cm *corev1.ConfigMap) (*Record, error) {
	r := &Record{}
	if err := json.Unmarshal([]byte(cm.Data[documentKey]), r); err != nil {
		return nil, fmt.Errorf("record %s: data[%q]: %w", cm.Name, documentKey, err)
	}
	if r.FormatVersion != FormatVersion {
		return nil, fmt.Errorf("record %s: format version %d, but this controller knows %d only: run the version that wrote it", cm.Name, r.FormatVersion, FormatVersion)
	}
	raw, err := unpack(cm.BinaryData[clusterKey])
	if err != nil {
		return nil, fmt.Errorf("record %s: binaryData[%q]: %w", cm.Name, clusterKey, err)
	}
	if got := digest(raw); got != r.SHA256 {
		return nil, fmt.Errorf("record %s: the captured cluster has sha256 %s, but %s was recorded: it was changed by somebody", cm.Name, got, r.SHA256)
	}
	if err := utiljson.Unmarshal(raw, &r.Cluster); err != nil {
		return nil, fmt.Errorf("record %s: captured cluster: %w", cm.Name, err)
	}
	r.resourceVersion = cm.ResourceVersion
	return r, nil
}

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxCluster+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxCluster {
		return nil, fmt.Errorf("more than %d bytes", maxCluster)
	}
	return raw, z.Close()
}
