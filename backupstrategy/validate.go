package backupstrategy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// maxPrefix leaves room for the file name in a key of 1024 bytes.
const maxPrefix = 700

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionName = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)
)

var errUserInformation = errors.New("it carries user information: put the credentials into the Secret")

// Validate gives a destination that is about to be written its canonical spelling, or says which field is wrong and what to write instead
// (DestinationInvalid). One slash at the endpoint's end is dropped, scheme and host become lower case, and a prefix that is not empty ends in one slash.
func Validate(d Destination) (Destination, error) {
	d, err := validateCommon(d)
	if err != nil {
		return Destination{}, err
	}
	if d.Prefix, err = canonicalPrefix(d.Prefix); err != nil {
		return Destination{}, invalid("key", err)
	}
	return d, nil
}

// validateCommon holds for places that are written and for places that are read. A place that is read keeps the prefix as it is spelt: another driver may
// have written below a leading slash.
func validateCommon(d Destination) (Destination, error) {
	if strings.Contains(d.Endpoint, "@") { // before anything that could repeat the value: what is in front of the sign is a secret
		return Destination{}, invalid("endpoint", errUserInformation)
	}
	values := map[string]string{"endpoint": d.Endpoint, "bucket": d.Bucket, "key": d.Prefix, "region": d.Region, "credentialsSecretRef.name": d.CredentialsSecretName}
	for _, name := range []string{"endpoint", "bucket", "key", "region", "credentialsSecretRef.name"} {
		if err := plainText(values[name]); err != nil {
			return Destination{}, invalid(name, err)
		}
	}
	endpoint, err := canonicalEndpoint(d.Endpoint)
	if err != nil {
		return Destination{}, invalid("endpoint", err)
	}
	d.Endpoint = endpoint
	if err := checkBucket(d.Bucket); err != nil {
		return Destination{}, invalid("bucket", err)
	}
	if !regionName.MatchString(d.Region) {
		return Destination{}, invalid("region", fmt.Errorf("%q is no region: letters, digits, dots, dashes, at most 64", d.Region))
	}
	if problems := validation.IsDNS1123Subdomain(d.CredentialsSecretName); len(problems) > 0 {
		return Destination{}, invalid("credentialsSecretRef.name", fmt.Errorf("%q cannot be the name of a Secret: %s", d.CredentialsSecretName, problems[0]))
	}
	return d, nil
}

func invalid(name string, err error) error {
	return fault.Terminalf(backupsv1alpha1.ReasonDestinationInvalid, "%s%s: %w", fieldPath, name, err)
}

// plainText refuses what a template leaves behind when it went wrong, and what no field may hold.
func plainText(s string) error {
	for _, mark := range []string{"<no value>", "<nil>", "%!", "{{", "}}", "map["} {
		if strings.Contains(s, mark) {
			return fmt.Errorf("the rendered value holds %q: the template refers to something that has no value, or is no text", mark)
		}
	}
	if strings.Contains(s, "..") {
		return fmt.Errorf("%q holds \"..\"", s)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%q is not valid UTF-8", s)
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("%q holds a control character at byte %d", s, i)
	}
	if strings.TrimSpace(s) != s {
		return fmt.Errorf("%q has blanks around it", s)
	}
	return nil
}

// canonicalEndpoint accepts http and https URLs of a host alone.
func canonicalEndpoint(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("it is empty: write it as https://host or http://host:port")
	}
	if strings.Contains(s, "@") {
		return "", errUserInformation
	}
	scheme, _, found := strings.Cut(s, "://")
	if !found {
		return "", fmt.Errorf("%q has no scheme: write https://%s or http://%s", s, s, s)
	}
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("%q has the scheme %q: only http and https are known", s, scheme)
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%q is no URL", s)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#") {
		return "", fmt.Errorf("%q carries a query or a fragment: leave it out", s)
	}
	if u.Path != "" && u.Path != "/" {
		return "", fmt.Errorf("%q carries the path %q: a store below a path is not supported, put a prefix into key", s, u.Path)
	}
	host, err := canonicalHost(u)
	if err != nil {
		return "", fmt.Errorf("%q: %w", s, err)
	}
	return scheme + "://" + host, nil
}

func canonicalHost(u *url.URL) (string, error) {
	name := strings.ToLower(u.Hostname())
	if net.ParseIP(name) == nil {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return "", fmt.Errorf("the host %q is neither a DNS name nor an IP address", name)
		}
	}
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "", fmt.Errorf("the port after the colon is missing")
		}
		if strings.Contains(name, ":") {
			return "[" + name + "]", nil
		}
		return name, nil
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("the port %q is not between 1 and 65535", port)
	}
	return net.JoinHostPort(name, port), nil
}

func checkBucket(s string) error {
	if !bucketName.MatchString(s) || net.ParseIP(s) != nil {
		return fmt.Errorf("%q is no bucket name: 3 to 63 lower-case letters, digits, dots and dashes, with a letter or digit at both ends, and no IP address", s)
	}
	return nil
}

func canonicalPrefix(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if strings.HasPrefix(s, "/") {
		return "", fmt.Errorf("%q begins with a slash: leave it out", s)
	}
	s = strings.TrimSuffix(s, "/")
	for _, segment := range strings.Split(s, "/") {
		if segment == "" {
			return "", fmt.Errorf("%q holds an empty segment between two slashes: is a value empty?", s+"/")
		}
		if segment == "." {
			return "", fmt.Errorf("%q holds the segment \".\"", s)
		}
	}
	if len(s) >= maxPrefix {
		return "", fmt.Errorf("it has %d bytes, at most %d are left for it in a key", len(s), maxPrefix)
	}
	return s + "/", nil
}
