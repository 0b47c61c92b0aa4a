package etcd

import (
	"fmt"
	"net"
	"strings"
)

// Resolver maps names to addresses where the cluster's DNS is not there: a port-forward, or a test. It is a flag.Value, given once per rule as
// PATTERN=HOST:PORT. PATTERN is a host name, `*`, or `*.suffix` (any number of labels). The first rule that matches wins.
type Resolver struct {
	rules []rule
}

type rule struct{ pattern, address string }

// Address returns where to connect for "host:port"; unmatched names stay as they are.
func (r Resolver) Address(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return hostPort
	}
	for _, rule := range r.rules {
		if matches(rule.pattern, host) {
			return rule.address
		}
	}
	return hostPort
}

func matches(pattern, host string) bool {
	if pattern == "*" {
		return true
	}
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, suffix)
	}
	return pattern == host
}

// Set adds a rule (flag.Value).
func (r *Resolver) Set(s string) error {
	pattern, address, ok := strings.Cut(s, "=")
	if !ok || pattern == "" {
		return fmt.Errorf("%q is not PATTERN=HOST:PORT", s)
	}
	if star := strings.LastIndex(pattern, "*"); star > 0 || (star == 0 && len(pattern) > 1 && pattern[1] != '.') {
		return fmt.Errorf("%q: a star stands alone or before the first dot", pattern)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%q: the address is not HOST:PORT: %w", s, err)
	}
	r.rules = append(r.rules, rule{pattern, address})
	return nil
}

// String lists the rules (flag.Value).
func (r *Resolver) String() string {
	if r == nil {
		return ""
	}
	parts := make([]string, 0, len(r.rules))
	for _, rule := range r.rules {
		parts = append(parts, rule.pattern+"="+rule.address)
	}
	return strings.Join(parts, ",")
}
