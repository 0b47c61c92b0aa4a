package backupstrategy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

const uriScheme = "s3://"

// Destination is a place in S3 below which snapshots are stored. Validate gives it the one canonical spelling that goes into the snapshot, the record and
// the Backup.
type Destination struct {
	Endpoint string // scheme://host[:port], without a slash at the end
	Bucket   string
	// Prefix of the keys. In canonical spelling it is empty or ends in exactly one slash.
	Prefix                string
	Region                string
	ForcePathStyle        bool
	CredentialsSecretName string // a Secret in the application's namespace
}

// ObjectKey is the key of a snapshot: the operator joins prefix, a slash unless the prefix ends in one, the snapshot's name and ".db". Nothing else is
// trimmed there, and nothing is here.
func (d Destination) ObjectKey(snapshot string) string {
	if d.Prefix == "" || strings.HasSuffix(d.Prefix, "/") {
		return d.Prefix + snapshot + ".db"
	}
	return d.Prefix + "/" + snapshot + ".db"
}

// URI of a snapshot, as the operator records it.
func (d Destination) URI(snapshot string) string {
	return uriScheme + d.Bucket + "/" + d.ObjectKey(snapshot)
}

// String is for messages; it has no secrets.
func (d Destination) String() string {
	return uriScheme + d.Bucket + "/" + d.Prefix + " at " + d.Endpoint
}

// Location is the destination in the operator's words; its key is the prefix.
func (d Destination) Location() etcdv1alpha2.S3Location {
	return etcdv1alpha2.S3Location{
		Endpoint: d.Endpoint, Bucket: d.Bucket, Key: d.Prefix, Region: d.Region, ForcePathStyle: d.ForcePathStyle,
		CredentialsSecretRef: corev1.LocalObjectReference{Name: d.CredentialsSecretName},
	}
}

// DestinationOf reads a destination back from a snapshot's spec; false where it is not in S3.
func DestinationOf(spec etcdv1alpha2.EtcdSnapshotSpec) (Destination, bool) {
	s3 := spec.Destination.S3
	if s3 == nil {
		return Destination{}, false
	}
	return Destination{
		Endpoint: s3.Endpoint, Bucket: s3.Bucket, Prefix: s3.Key, Region: s3.Region, ForcePathStyle: s3.ForcePathStyle,
		CredentialsSecretName: s3.CredentialsSecretRef.Name,
	}, true
}

// S3Object is one object, exactly.
type S3Object struct {
	Endpoint              string
	Bucket                string
	Key                   string // of the object, not a prefix
	Region                string
	ForcePathStyle        bool
	CredentialsSecretName string // a Secret in the Backup's namespace
	SizeBytes             int64  // 0 where the Backup does not say
	Checksum              string // sha256:<hex>, or empty where the Backup does not say
}

// URI is s3://bucket/key.
func (o S3Object) URI() string { return uriScheme + o.Bucket + "/" + o.Key }

// Location is the object in the operator's words, as spec.bootstrap.restore.source.s3 takes it.
func (o S3Object) Location() etcdv1alpha2.S3Location {
	return etcdv1alpha2.S3Location{
		Endpoint: o.Endpoint, Bucket: o.Bucket, Key: o.Key, Region: o.Region, ForcePathStyle: o.ForcePathStyle,
		CredentialsSecretRef: corev1.LocalObjectReference{Name: o.CredentialsSecretName},
	}
}

// parseURI splits s3://bucket/key. Keys are taken literally: the operator does not escape them.
func parseURI(uri string) (bucket, key string, ok bool) {
	rest, found := strings.CutPrefix(uri, uriScheme)
	if !found {
		return "", "", false
	}
	bucket, key, found = strings.Cut(rest, "/")
	return bucket, key, found && bucket != "" && key != ""
}
