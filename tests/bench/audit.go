// Package bench measures what the controller adds to the operator's own work, as `make bench` prints it.
package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strings"
)

// user is the controller's identity in the audit log.
const user = "system:serviceaccount:cozy-etcd-system:etcd-controller"

// leaderLease is renewed every few seconds, whatever happens.
const leaderLease = "etcd-controller.cozy-etcd.io"

// calls counts the controller's requests in a stretch of the audit log by verb and resource. The renewals of the leader's Lease and watches stand
// apart: neither grows with the number of jobs. Leases that are locks count.
type calls struct {
	counted map[string]int
	leases  int
	watches int
}

func (c calls) total() int {
	n := 0
	for _, k := range c.counted {
		n += k
	}
	return n
}

// String lists the calls, the most frequent first.
func (c calls) String() string {
	names := make([]string, 0, len(c.counted))
	for name := range c.counted {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return c.counted[names[i]] > c.counted[names[j]] })
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %d", name, c.counted[name]))
	}
	return strings.Join(parts, ", ")
}

type auditEvent struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Name string }

	ResponseStatus struct{ Code int }
}

// readCalls reads the audit log from an offset to its end and returns the new end.
func readCalls(path string, from int64) (calls, int64, error) {
	c := calls{counted: map[string]int{}}
	f, err := os.Open(path)
	if err != nil {
		return c, 0, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(from, 0); err != nil {
		return c, 0, err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		from += int64(len(lines.Bytes())) + 1
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return c, 0, fmt.Errorf("audit log: %w", err)
		}
		if e.User.Username != user || e.Stage != "ResponseComplete" && e.Stage != "ResponseStarted" {
			continue
		}
		switch {
		case e.ObjectRef.Resource == "leases" && e.ObjectRef.Name == leaderLease:
			c.leases++
		case e.Verb == "watch":
			c.watches++
		case e.Stage == "ResponseComplete":
			name := e.Verb + " " + e.ObjectRef.Resource
			if e.ObjectRef.Subresource != "" {
				name += "/" + e.ObjectRef.Subresource
			}
			if e.ResponseStatus.Code >= http.StatusBadRequest {
				name += fmt.Sprintf(" (%d)", e.ResponseStatus.Code)
			}
			c.counted[name]++
		}
	}
	return c, from, lines.Err()
}
