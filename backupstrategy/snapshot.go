package backupstrategy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// Annotations of an EtcdSnapshot of ours: what was true when it was asked for, kept until the Backup is written. The keys of facts are those of
// Backup.spec.driverMetadata.
const (
	AnnotationStrategy   = "cozy-etcd.io/strategy"
	AnnotationParameters = "cozy-etcd.io/parameters"
)

// maxSnapshotName keeps "<snapshot>-snapshot", the operator's Job, within the 63 characters of the label that Kubernetes derives from it.
const maxSnapshotName = 63 - len("-snapshot")

// maxAnnotations is a little less than the API server takes of all annotations of an object: with more, there would be no snapshot at all.
const maxAnnotations = 250 << 10

// SnapshotName is the name of the one snapshot of an owner: the owner's name, cut where it is too long, and the first eight hex digits of its UID. The
// UID keeps two owners that had the same name, one after the other, from meaning the same object in S3.
func SnapshotName(owner metav1.Object) string {
	suffix := strings.ReplaceAll(string(owner.GetUID()), "-", "")
	suffix = "-" + suffix[:min(len(suffix), 8)]
	name := owner.GetName()
	if limit := maxSnapshotName - len(suffix); len(name) > limit {
		name = strings.TrimRight(name[:limit], "-.")
	}
	return name + suffix
}

// Facts are what was known of the cluster when the snapshot was asked for. Each may be absent; a reader takes an absent one as unknown.
type Facts struct {
	Version     string // of etcd, X.Y.Z
	ClusterID   string // hex
	ClusterUID  string
	Revision    string // decimal; the snapshot holds at least this one
	ClusterSpec string // JSON, without bootstrap
}

// Metadata is the facts as they stand in Backup.spec.driverMetadata.
func (f Facts) Metadata() map[string]string {
	m := map[string]string{}
	for key, value := range map[string]string{
		backupsv1alpha1.MetadataEtcdVersion: f.Version,
		backupsv1alpha1.MetadataClusterID:   f.ClusterID,
		backupsv1alpha1.MetadataClusterUID:  f.ClusterUID,
		backupsv1alpha1.MetadataRevision:    f.Revision,
		backupsv1alpha1.MetadataClusterSpec: f.ClusterSpec,
	} {
		if value != "" {
			m[key] = value
		}
	}
	return m
}

// FactsOf reads facts back from a map that Metadata made, or from one that holds it among other keys.
func FactsOf(m map[string]string) Facts {
	return Facts{
		Version:     m[backupsv1alpha1.MetadataEtcdVersion],
		ClusterID:   m[backupsv1alpha1.MetadataClusterID],
		ClusterUID:  m[backupsv1alpha1.MetadataClusterUID],
		Revision:    m[backupsv1alpha1.MetadataRevision],
		ClusterSpec: m[backupsv1alpha1.MetadataClusterSpec],
	}
}

// ClusterSpec is an EtcdCluster's spec, as the API server gave it, as JSON for Facts: everything but bootstrap, fields unknown here included.
func ClusterSpec(spec map[string]any) (string, error) {
	kept := maps.Clone(spec)
	delete(kept, "bootstrap")
	raw, err := json.Marshal(kept)
	if err != nil {
		return "", fmt.Errorf("write the spec of the EtcdCluster as JSON: %w", err)
	}
	return string(raw), nil
}

// SnapshotRequest is what an EtcdSnapshot of a job is built from.
type SnapshotRequest struct {
	Job         metav1.Object // a BackupJob, or the RestoreJob whose safety snapshot it is
	Cluster     string        // name of the EtcdCluster in the job's namespace
	Strategy    string        // name of the strategy
	Parameters  map[string]string
	Destination Destination // validated
	Facts       Facts
}

// NewSnapshot builds the EtcdSnapshot of a job: named after its UID and controlled by it, so that it goes with the job. What it stored in S3 stays.
func NewSnapshot(r SnapshotRequest) (*etcdv1alpha2.EtcdSnapshot, error) {
	parameters, err := json.Marshal(r.Parameters)
	if err != nil {
		return nil, fmt.Errorf("write the parameters of the BackupClass row as JSON: %w", err)
	}
	annotations := r.Facts.Metadata()
	annotations[AnnotationStrategy] = r.Strategy
	annotations[AnnotationParameters] = string(parameters)
	if bytesOf(annotations) > maxAnnotations {
		delete(annotations, backupsv1alpha1.MetadataClusterSpec) // the one fact that may be large, and that a restore finds elsewhere, too
	}
	location := r.Destination.Location()
	return &etcdv1alpha2.EtcdSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Name:        SnapshotName(r.Job),
			Namespace:   r.Job.GetNamespace(),
			Labels:      OwnerLabels(r.Job),
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(r.Job, backupsv1alpha1.GroupVersion.WithKind(kindOf(r.Job))),
			},
		},
		Spec: etcdv1alpha2.EtcdSnapshotSpec{
			ClusterRef:  corev1.LocalObjectReference{Name: r.Cluster},
			Destination: etcdv1alpha2.SnapshotLocation{S3: &location},
		},
	}, nil
}

func bytesOf(m map[string]string) int {
	n := 0
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}

func kindOf(job metav1.Object) string {
	if _, ok := job.(*backupsv1alpha1.RestoreJob); ok {
		return "RestoreJob"
	}
	return "BackupJob"
}

// OwnerLabels are the labels that Cozystack puts on the children of a BackupJob, or ours for those of a RestoreJob. A label's value holds 63 characters at
// most; a longer name is left out, as nothing of ours looks children up by label.
func OwnerLabels(job metav1.Object) map[string]string {
	labels, name := map[string]string{}, backupsv1alpha1.LabelRestoreJobName
	if kindOf(job) == "BackupJob" {
		labels[backupsv1alpha1.LabelBackupJobNamespace], name = job.GetNamespace(), backupsv1alpha1.LabelBackupJobName
	}
	if len(job.GetName()) <= 63 {
		labels[name] = job.GetName()
	}
	return labels
}
