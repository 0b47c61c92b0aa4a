// Package artifact proves a snapshot before anything is deleted for it, and makes the copy that a restore starts from. It needs no cluster.
//
//	workspace := scratch.Open(...)         free bytes and limit are checked first
//	file := Fetch(...)                     streamed to disk; size, recorded sha256 and etcd's own trailing sha256
//	facts := file.Inspect(...)                  every page and every entry of the database
//	Fit(facts, ...)                        version, quota, volume, auth: pure functions
//	prepared := Prepare(...)               revision bumped and old revisions compacted away by etcdutl of the snapshot's own minor
//
// Memory stays bounded whatever the snapshot's size: files are read in pages, the live set of keys is counted in partitions on disk once it outgrows a
// fixed number of entries, and the two lists that a report holds (prefixes, names) end at a fixed length.
//
// bbolt itself does not check the snapshot. Its Check rebuilds the free list in a goroutine that panics on the first damaged page, which would end the
// process, and reads pages through a memory map, where a wrong offset is a fatal fault. walk.go makes the same checks on bounded reads and names the byte;
// only a file that has passed them is given to etcdutl, and bbolt opens here only what etcdutl wrote. squeeze.go leaves the free pages out by the same reads.
package artifact
