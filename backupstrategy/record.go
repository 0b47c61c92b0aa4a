package backupstrategy

import (
	"regexp"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

var checksum = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Artifact checks the operator's record of a complete snapshot and returns it as a Backup holds it: the URI is exactly the place that this snapshot was
// to be stored at, the size is above 0 and the checksum is a sha256. A record that says less proves nothing (ArtifactInvalid).
func Artifact(snapshot *etcdv1alpha2.EtcdSnapshot) (backupsv1alpha1.BackupArtifact, error) {
	d, ok := DestinationOf(snapshot.Spec)
	if !ok {
		return badArtifact("EtcdSnapshot %q has no S3 destination", snapshot.Name)
	}
	a := snapshot.Status.Artifact
	if a == nil {
		return badArtifact("EtcdSnapshot %q is complete but has no status.artifact: nothing proves that an object was stored", snapshot.Name)
	}
	if want := d.URI(snapshot.Name); a.URI != want {
		return badArtifact("EtcdSnapshot %q: status.artifact.uri is %q, but the destination makes it %q", snapshot.Name, a.URI, want)
	}
	if a.SizeBytes <= 0 {
		return badArtifact("EtcdSnapshot %q: status.artifact.sizeBytes is %d: nothing was stored", snapshot.Name, a.SizeBytes)
	}
	if !checksum.MatchString(a.Checksum) {
		return badArtifact("EtcdSnapshot %q: status.artifact.checksum is %q, not sha256: and 64 hex digits: the object could never be verified", snapshot.Name, a.Checksum)
	}
	return backupsv1alpha1.BackupArtifact{URI: a.URI, SizeBytes: a.SizeBytes, Checksum: a.Checksum}, nil
}

func badArtifact(format string, args ...any) (backupsv1alpha1.BackupArtifact, error) {
	return backupsv1alpha1.BackupArtifact{}, fault.Terminalf(backupsv1alpha1.ReasonArtifactInvalid, format, args...)
}
