package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// StorageMedium is what a member's data lie on.
// +kubebuilder:validation:Enum="";Memory
type StorageMedium string

// Storage media.
const (
	StorageMediumDisk   StorageMedium = ""
	StorageMediumMemory StorageMedium = "Memory"
)

// StorageSpec is a member's volume.
type StorageSpec struct {
	// Size of the volume. It never shrinks.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage.size cannot shrink"
	Size resource.Quantity `json:"size,omitzero"`
	// Medium is disk when empty. Immutable.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="storage.medium cannot be changed: recreate the cluster"
	Medium StorageMedium `json:"medium,omitempty"`
	// StorageClassName of the volume; the cluster's default class when absent. Immutable.
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// EtcdOptions tune etcd.
type EtcdOptions struct {
	// QuotaBackendBytes limits the database.
	// +optional
	// +kubebuilder:validation:Minimum=0
	QuotaBackendBytes *int64 `json:"quotaBackendBytes,omitempty"`
	// AutoCompactionMode tells how AutoCompactionRetention is read.
	// +optional
	// +kubebuilder:validation:Enum=periodic;revision
	AutoCompactionMode string `json:"autoCompactionMode,omitempty"`
	// AutoCompactionRetention is a duration or a number of revisions.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^[0-9]+$`
	AutoCompactionRetention string `json:"autoCompactionRetention,omitempty"`
	// SnapshotCount is the number of raft entries between two raft snapshots.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SnapshotCount *int64 `json:"snapshotCount,omitempty"`
}

// AdditionalMetadata is put on what the operator makes.
type AdditionalMetadata struct {
	// Labels to add.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// RestoreSpec names a snapshot exactly.
// +kubebuilder:validation:XValidation:rule="!has(self.source.s3) || (has(self.source.s3.key) && size(self.source.s3.key) > 0)",message="restore.source.s3.key must be the key of one object"
// +kubebuilder:validation:XValidation:rule="!has(self.source.pvc) || (has(self.source.pvc.subPath) && size(self.source.pvc.subPath) > 0)",message="restore.source.pvc.subPath must be the path of one file"
type RestoreSpec struct {
	// Source of the data.
	Source SnapshotLocation `json:"source"`
}

// SnapshotLocation is a place in an S3 bucket or on a volume. A snapshot is written below it, a restore reads exactly it.
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.pvc)",message="either s3 or pvc must be set, and not both"
type SnapshotLocation struct {
	// S3 place.
	// +optional
	S3 *S3Location `json:"s3,omitempty"`
	// PVC place.
	// +optional
	PVC *PVCLocation `json:"pvc,omitempty"`
}

// S3Location is a place in a bucket.
type S3Location struct {
	// Endpoint is the store's URL.
	// +kubebuilder:validation:MinLength=1
	Endpoint string `json:"endpoint"`
	// Bucket to use.
	// +kubebuilder:validation:MinLength=1
	Bucket string `json:"bucket"`
	// Key is a prefix for a snapshot, an object's key for a restore.
	// +optional
	Key string `json:"key,omitempty"`
	// Region of the bucket.
	// +optional
	Region string `json:"region,omitempty"`
	// ForcePathStyle puts the bucket into the path.
	// +optional
	ForcePathStyle bool `json:"forcePathStyle,omitempty"`
	// CredentialsSecretRef names the Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	CredentialsSecretRef corev1.LocalObjectReference `json:"credentialsSecretRef"`
}

// PVCLocation is a place on a volume.
type PVCLocation struct {
	// ClaimName of the volume.
	// +kubebuilder:validation:MinLength=1
	ClaimName string `json:"claimName"`
	// SubPath is a directory for a snapshot, a file for a restore.
	// +optional
	SubPath string `json:"subPath,omitempty"`
}
