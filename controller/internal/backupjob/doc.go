// Package backupjob runs BackupJobs of the Etcd strategy: one EtcdSnapshot and one Backup for each. STATES.md lists the states with their predicates.
package backupjob
