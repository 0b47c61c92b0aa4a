package crash

import "regexp"

// volatile are the paths that differ between two undisturbed runs.
var volatile = [][]string{
	{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"}, {"metadata", "generateName"},
	{"status", "startedAt"}, {"status", "completedAt"}, {"spec", "takenAt"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "volumeName"},
	{"status", "history"}, {"status", "lastAttemptedConfigDigest"},
}

// noise are values that differ between two undisturbed runs, wherever they stand.
var noise = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`), "<time>"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "<sha256>"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<sha256>"},
	{regexp.MustCompile(`\betcd-[b-df-hj-np-tv-z0-9]{5}\b`), "etcd-<member>"},
	{regexp.MustCompile(`\b[0-9a-f]{12,16}\b`), "<id>"},
	{regexp.MustCompile(`-[0-9a-f]{8}\b`), "-<id>"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "<address>"},
	{regexp.MustCompile(`-snapshot-[b-df-hj-np-tv-z0-9]{5}\b`), "-snapshot-<pod>"},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?m?s\b`), "<duration>"},
	{regexp.MustCompile(`("modifiedAt":)"[0-9]+"`), `$1"<time>"`},
	// etcd allocates pages as its own timing has it.
	{regexp.MustCompile(`("sizeBytes":)[0-9]+`), `$1<bytes>`},
	{regexp.MustCompile(`\b[0-9]+ bytes\b`), "<bytes>"},
	{regexp.MustCompile(`(\\"(objectBytes|inUseBytes)\\": )[0-9]+`), `$1<bytes>`}, // of the report, a document within a string
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC`), "<time>"},
	{regexp.MustCompile(`("resourceVersion":)"[0-9]+"`), `$1"<rv>"`},
	// One who must try again gives the lock back meanwhile.
	{regexp.MustCompile(`("leaseTransitions":)[0-9]+`), `$1<n>`},
	{regexp.MustCompile(`("observedGeneration":)[0-9]+`), `$1<n>`},
}

// quiet replaces all noise.
func quiet(s string) string {
	for _, n := range noise {
		s = n.pattern.ReplaceAllString(s, n.as)
	}
	return s
}
