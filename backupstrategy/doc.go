// Package backupstrategy is the Etcd backup strategy as pure functions: from what an administrator wrote (BackupClass, strategy) to an EtcdSnapshot, from
// its record to a Backup, and from a Backup back to the exact object in S3. It has no clients and no clock.
//
// Two kinds of checks keep tenants apart. What is about to be written is rendered from the administrator's templates and held to one canonical spelling
// (Destination). What is about to be read is taken from a Backup (RestoreSource), which a tenant may have edited, and counts only after it was derived a
// second time from what the administrator wrote (TrustedSource).
package backupstrategy
