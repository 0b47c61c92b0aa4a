package backupstrategy

import (
	"encoding/json"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// RestoreSource reads from a Backup, ours or one of Cozystack's driver, which object it means. What it returns is a claim, which whoever can edit the Backup
// can change: TrustedSource decides whether the object may be read.
//
// The key comes from the artifact's URI if its bucket is the destination's; else it is the prefix joined with the snapshot's name. The destination is that
// of status.underlyingResources; else that of spec.driverMetadata. A document of an unknown kind or version is refused, since ignoring it could mean
// reading another object than the one that was written.
func RestoreSource(b *backupsv1alpha1.Backup) (S3Object, error) {
	if !IsEtcdStrategy(b.Spec.StrategyRef) {
		return S3Object{}, fault.Terminalf(backupsv1alpha1.ReasonStrategyKindUnsupported,
			"Backup %q: spec.strategyRef is kind %q, not the Etcd strategy", b.Name, b.Spec.StrategyRef.Kind)
	}
	d, err := claimedDestination(b)
	if err != nil {
		return S3Object{}, err
	}
	key, err := claimedKey(b, d)
	if err != nil {
		return S3Object{}, err
	}
	o := S3Object{
		Endpoint: d.Endpoint, Bucket: d.Bucket, Key: key, Region: d.Region, ForcePathStyle: d.ForcePathStyle, CredentialsSecretName: d.CredentialsSecretName,
	}
	if a := b.Status.Artifact; a != nil {
		o.SizeBytes, o.Checksum = a.SizeBytes, a.Checksum
	}
	return o, nil
}

func claimedDestination(b *backupsv1alpha1.Backup) (Destination, error) {
	raw := b.Status.UnderlyingResources
	if raw == nil || len(raw.Raw) == 0 || string(raw.Raw) == "null" {
		return destinationFromMetadata(b)
	}
	var doc backupsv1alpha1.UnderlyingSnapshot
	if err := json.Unmarshal(raw.Raw, &doc); err != nil {
		return Destination{}, unreadable(b, "status.underlyingResources: %w", err)
	}
	if doc.Kind != backupsv1alpha1.UnderlyingSnapshotKind || doc.APIVersion != backupsv1alpha1.UnderlyingSnapshotAPIVersion {
		return Destination{}, unreadable(b, "status.underlyingResources is %q of %q, but only %q of %q is known", doc.Kind, doc.APIVersion,
			backupsv1alpha1.UnderlyingSnapshotKind, backupsv1alpha1.UnderlyingSnapshotAPIVersion)
	}
	s3 := doc.Destination.S3
	if s3 == nil || s3.Bucket == "" {
		return Destination{}, unreadable(b, "status.underlyingResources.destination.s3 names no bucket")
	}
	return Destination{
		Endpoint: s3.Endpoint, Bucket: s3.Bucket, Prefix: s3.Key, Region: s3.Region, ForcePathStyle: s3.ForcePathStyle,
		CredentialsSecretName: s3.CredentialsSecretRef.Name,
	}, nil
}

func destinationFromMetadata(b *backupsv1alpha1.Backup) (Destination, error) {
	m := b.Spec.DriverMetadata
	if m[backupsv1alpha1.MetadataBucket] == "" {
		return Destination{}, unreadable(b, "neither status.underlyingResources nor spec.driverMetadata[%q] names a bucket", backupsv1alpha1.MetadataBucket)
	}
	return Destination{
		Endpoint: m[backupsv1alpha1.MetadataEndpoint], Bucket: m[backupsv1alpha1.MetadataBucket], Prefix: m[backupsv1alpha1.MetadataKey],
		Region: m[backupsv1alpha1.MetadataRegion], ForcePathStyle: m[backupsv1alpha1.MetadataForcePathStyle] == "true",
		CredentialsSecretName: m[backupsv1alpha1.MetadataCredentialsSecretName],
	}, nil
}

func claimedKey(b *backupsv1alpha1.Backup, d Destination) (string, error) {
	if a := b.Status.Artifact; a != nil {
		if bucket, key, ok := parseURI(a.URI); ok && bucket == d.Bucket {
			return key, nil
		}
	}
	name := b.Spec.DriverMetadata[backupsv1alpha1.MetadataBackupName]
	if name == "" {
		return "", unreadable(b, "status.artifact.uri is not in bucket %q, and spec.driverMetadata[%q] is not set: no object can be named",
			d.Bucket, backupsv1alpha1.MetadataBackupName)
	}
	d.Prefix = strings.TrimRight(d.Prefix, "/")
	return d.ObjectKey(name), nil
}

func unreadable(b *backupsv1alpha1.Backup, format string, args ...any) error {
	return fault.Terminalf(backupsv1alpha1.ReasonBackupUnreadable, "Backup %q: "+format, append([]any{b.Name}, args...)...)
}
