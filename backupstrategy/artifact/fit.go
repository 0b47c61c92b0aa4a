package artifact

import (
	"strconv"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

const (
	// defaultQuota is etcd's own where none is set.
	defaultQuota = 2 << 30
	// quotaReserve is the part of the quota that must stay free, so that a restored cluster does not come up with a NOSPACE alarm on its first writes.
	quotaReserve = 20
	// volumeFactor: the seed downloads the object onto the data volume and unpacks it beside itself.
	volumeFactor = 2
	// volumeRest is etcd's log and snapshots on that volume.
	volumeRest = 128 << 20
)

// Target is the cluster that a snapshot is to be restored into.
type Target struct {
	Version     string // spec.version
	QuotaBytes  int64  // spec.options quota-backend-bytes; 0 means etcd's own default
	VolumeBytes int64  // spec.storage.size; 0 where it is not known
	AuthEnabled bool   // spec.auth.enabled
	// OperatorMinors are the etcd minors that the running operator can restore.
	OperatorMinors []string
	// AllowMinor accepts a snapshot of the minor before or after the target's, or of an unknown one.
	AllowMinor bool
}

// Fit tells why a snapshot cannot be restored into the target, with the numbers; size is the object's that the restore starts from.
func Fit(f Facts, size int64, t Target) error {
	for _, err := range []error{fitVersion(f.Minor(), t), fitQuota(f, t), fitVolume(size, t), fitAuth(f.Auth, t), fitAlarms(f.Alarms)} {
		if err != nil {
			return err
		}
	}
	return nil
}

func unsupported(format string, args ...any) error {
	return fault.Terminalf(backupsv1alpha1.ReasonVersionUnsupported, format, args...)
}

func fitVersion(snapshot string, t Target) error {
	target := minorOf(t.Version)
	if target == "" {
		return unsupported("spec.version %q is no version X.Y.Z", t.Version)
	}
	able := false
	for _, m := range t.OperatorMinors {
		able = able || m == target
	}
	switch {
	case !able:
		return unsupported("the running operator restores etcd %s only, and spec.version is %s", strings.Join(t.OperatorMinors, ", "), t.Version)
	case snapshot == target:
		return nil
	case snapshot == "" && t.AllowMinor:
		return nil
	case snapshot == "":
		return unsupported("the snapshot does not say which etcd it is of: allow another minor if it is of %s or of the minor before", target)
	case !next(snapshot, target) && !next(target, snapshot):
		return unsupported("the snapshot is of etcd %s and spec.version is %s: etcd moves one minor at a time", snapshot, t.Version)
	case !t.AllowMinor && next(target, snapshot):
		return unsupported("the snapshot is of etcd %s and spec.version is %s: an older etcd need not understand newer data; restore onto %s, or allow another minor", snapshot, t.Version, snapshot)
	case !t.AllowMinor:
		return unsupported("the snapshot is of etcd %s and spec.version is %s: restore onto %s and upgrade afterwards, or allow another minor", snapshot, t.Version, snapshot)
	}
	return nil
}

// next tells whether a minor is the one after another.
func next(from, to string) bool {
	fromMajor, fromMinor := numbers(from)
	toMajor, toMinor := numbers(to)
	return fromMajor == toMajor && fromMinor+1 == toMinor
}

func numbers(version string) (major, minor int) {
	a, b, _ := strings.Cut(version, ".")
	major, _ = strconv.Atoi(a)
	minor, _ = strconv.Atoi(b)
	return major, minor
}

// fitQuota looks at the pages in use: the free ones are compacted away.
func fitQuota(f Facts, t Target) error {
	quota := t.QuotaBytes
	if quota <= 0 {
		quota = defaultQuota
	}
	if allowed := quota - quota/quotaReserve; f.InUseBytes > allowed {
		return fault.Terminalf(backupsv1alpha1.ReasonQuotaTooSmall,
			"the snapshot holds %d bytes in use and the quota is %d, of which %d may be filled: raise the quota, or the cluster would come up read-only with a NOSPACE alarm", f.InUseBytes, quota, allowed)
	}
	return nil
}

func fitVolume(size int64, t Target) error {
	if need := volumeFactor*size + volumeRest; t.VolumeBytes > 0 && need > t.VolumeBytes {
		return fault.Terminalf(backupsv1alpha1.ReasonVolumeTooSmall,
			"a restore of %d bytes needs about %d bytes on the data volume and spec.storage.size is %d: raise it", size, need, t.VolumeBytes)
	}
	return nil
}

func fitAuth(a Auth, t Target) error {
	switch {
	case a.Enabled && !t.AuthEnabled:
		return fault.Terminalf(backupsv1alpha1.ReasonAuthMismatch, "the snapshot has auth on and spec.auth is off: nobody who relies on certificates alone could log in")
	case !a.Enabled && t.AuthEnabled:
		return fault.Terminalf(backupsv1alpha1.ReasonAuthMismatch, "spec.auth is on and the snapshot has auth off: the operator's login would be refused")
	}
	return nil
}

// fitAlarms refuses data that etcd itself has called corrupt. The alarm comes back with them, and a member serves nothing under it. NOSPACE is lifted once the
// cluster is there.
func fitAlarms(alarms []Alarm) error {
	for _, a := range alarms {
		if a.Type == AlarmCorrupt {
			return fault.Terminalf(backupsv1alpha1.ReasonCorruptAlarm,
				"the snapshot was taken under a CORRUPT alarm of member %s, which comes back with it: etcd would serve nothing; choose a Backup from before the alarm", a.MemberID)
		}
	}
	return nil
}
