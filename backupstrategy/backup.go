package backupstrategy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

// BackupRequest is what a Backup is built from.
type BackupRequest struct {
	Name           string
	Namespace      string
	Labels         map[string]string
	ApplicationRef corev1.TypedLocalObjectReference
	PlanRef        *corev1.LocalObjectReference
	Strategy       string
	Parameters     map[string]string
	Destination    Destination
	Snapshot       string // name of the EtcdSnapshot, the object's file name without extension
	Artifact       backupsv1alpha1.BackupArtifact
	TakenAt        metav1.Time
	StoredAt       metav1.Time // when the operator reported the object; TakenAt where it is zero
	Facts          Facts
}

// BackupOf gathers the request for the Backup of a BackupJob from its complete snapshot.
func BackupOf(job *backupsv1alpha1.BackupJob, snapshot *etcdv1alpha2.EtcdSnapshot) (BackupRequest, error) {
	return FromSnapshot(BackupRequest{
		Name: job.Name, Namespace: job.Namespace, Labels: OwnerLabels(job), ApplicationRef: job.Spec.ApplicationRef, PlanRef: job.Spec.PlanRef,
	}, snapshot)
}

// FromSnapshot completes a request that says for whom the Backup is with what a complete snapshot says: place and facts are those that it was created with,
// whatever the class says by now.
func FromSnapshot(r BackupRequest, snapshot *etcdv1alpha2.EtcdSnapshot) (BackupRequest, error) {
	artifact, err := Artifact(snapshot)
	if err != nil {
		return BackupRequest{}, err
	}
	// A job's reference may be edited while its run is under way. What was stored is of the cluster that the snapshot was asked of.
	if r.ApplicationRef.Name = snapshot.Spec.ClusterRef.Name; !IsEtcdApplication(r.ApplicationRef) {
		group := backupsv1alpha1.DefaultApplicationGroup
		r.ApplicationRef.APIGroup, r.ApplicationRef.Kind = &group, backupsv1alpha1.EtcdApplicationKind
	}
	r.Parameters = map[string]string{}
	if raw := snapshot.Annotations[AnnotationParameters]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &r.Parameters); err != nil {
			return BackupRequest{}, fmt.Errorf("EtcdSnapshot %q: annotation %s: %w", snapshot.Name, AnnotationParameters, err)
		}
	}
	r.Destination, _ = DestinationOf(snapshot.Spec)
	r.Strategy, r.Snapshot, r.Artifact, r.Facts = snapshot.Annotations[AnnotationStrategy], snapshot.Name, artifact, FactsOf(snapshot.Annotations)
	r.TakenAt, r.StoredAt = snapshot.CreationTimestamp, storedAt(snapshot)
	return r, nil
}

func storedAt(snapshot *etcdv1alpha2.EtcdSnapshot) metav1.Time {
	if c := meta.FindStatusCondition(snapshot.Status.Conditions, etcdv1alpha2.ConditionReady); c != nil {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

// NewBackup builds the Backup in Cozystack's shape, with its status: the kind has no status subresource, so one create writes both. Nobody owns it.
func NewBackup(r BackupRequest) (*backupsv1alpha1.Backup, error) {
	underlying, err := underlyingResources(r.Destination, r.Parameters)
	if err != nil {
		return nil, err
	}
	metadata := r.Facts.Metadata()
	maps.Copy(metadata, cozystackMetadata(r.Destination, r.Snapshot))
	artifact := r.Artifact
	stored := r.StoredAt
	if stored.IsZero() {
		stored = r.TakenAt
	}
	return &backupsv1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels},
		Spec: backupsv1alpha1.BackupSpec{
			ApplicationRef: r.ApplicationRef,
			PlanRef:        r.PlanRef,
			StrategyRef:    StrategyRef(r.Strategy),
			TakenAt:        r.TakenAt,
			DriverMetadata: metadata,
		},
		Status: backupsv1alpha1.BackupStatus{
			Phase:               backupsv1alpha1.BackupReady,
			Artifact:            &artifact,
			UnderlyingResources: &runtime.RawExtension{Raw: underlying},
			Conditions: []metav1.Condition{{
				Type: backupsv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: backupsv1alpha1.ReasonSnapshotStored,
				Message:            fmt.Sprintf("%s, %d bytes, %s", artifact.URI, artifact.SizeBytes, artifact.Checksum),
				LastTransitionTime: stored,
			}},
		},
	}, nil
}

func cozystackMetadata(d Destination, snapshot string) map[string]string {
	return map[string]string{
		backupsv1alpha1.MetadataBucket:                d.Bucket,
		backupsv1alpha1.MetadataEndpoint:              d.Endpoint,
		backupsv1alpha1.MetadataKey:                   d.Prefix,
		backupsv1alpha1.MetadataRegion:                d.Region,
		backupsv1alpha1.MetadataForcePathStyle:        strconv.FormatBool(d.ForcePathStyle),
		backupsv1alpha1.MetadataCredentialsSecretName: d.CredentialsSecretName,
		backupsv1alpha1.MetadataBackupName:            snapshot,
	}
}

func underlyingResources(d Destination, parameters map[string]string) ([]byte, error) {
	raw, err := json.Marshal(backupsv1alpha1.UnderlyingSnapshot{
		Kind:       backupsv1alpha1.UnderlyingSnapshotKind,
		APIVersion: backupsv1alpha1.UnderlyingSnapshotAPIVersion,
		Destination: backupsv1alpha1.UnderlyingDestination{S3: &backupsv1alpha1.UnderlyingS3{
			Bucket: d.Bucket, Endpoint: d.Endpoint, Key: d.Prefix, Region: d.Region, ForcePathStyle: d.ForcePathStyle,
			CredentialsSecretRef: corev1.LocalObjectReference{Name: d.CredentialsSecretName},
		}},
		Parameters: parameters,
	})
	if err != nil {
		return nil, fmt.Errorf("write status.underlyingResources: %w", err)
	}
	return raw, nil
}
