package backupstrategy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

func destination() Destination {
	return Destination{Endpoint: "https://s3.example", Bucket: "backups", Prefix: "acme/etcd/", CredentialsSecretName: "creds"}
}

func TestC37Endpoint(t *testing.T) {
	cases := []struct{ in, want, advice string }{
		{in: "https://s3.example.internal", want: "https://s3.example.internal"},
		{in: "https://s3.example.internal/", want: "https://s3.example.internal"},
		{in: "HTTP://[fd00::1]:9000", want: "http://[fd00::1]:9000"},
		{in: "https://[FD00::1]", want: "https://[fd00::1]"},
		{in: "http://S3.Example:9000", want: "http://s3.example:9000"},
		{in: "http://10.0.0.1:9000", want: "http://10.0.0.1:9000"},
		{in: "", advice: "https://host"},
		{in: "s3.example.internal", advice: "https://s3.example.internal"},
		{in: "s3.example.internal:9000", advice: "http://s3.example.internal:9000"},
		{in: "s3://s3.example.internal", advice: "only http and https"},
		{in: "https://s3.example.internal/store/", advice: "path"},
		{in: "https://s3.example.internal//", advice: "path"},
		{in: "https://s3.example.internal ", advice: "blanks"},
		{in: " https://s3.example.internal", advice: "blanks"},
		{in: "https://s3.example internal", advice: "no URL"},
		{in: "https://", advice: "host"},
		{in: "https://:9000", advice: "host"},
		{in: "https://s3.example:", advice: "port"},
		{in: "https://s3.example:0", advice: "port"},
		{in: "https://s3.example:70000", advice: "port"},
		{in: "https://s3_example", advice: "host"},
		{in: "https://s3.example?x=1", advice: "query"},
		{in: "https://s3.example?", advice: "query"},
		{in: "https://s3.example#f", advice: "fragment"},
		{in: "https://s3.example#", advice: "fragment"},
	}
	for _, c := range cases {
		t.Run(c.in, func(t *testing.T) {
			d := destination()
			d.Endpoint = c.in
			got, err := Validate(d)
			if c.advice == "" {
				require.NoError(t, err)
				require.Equal(t, c.want, got.Endpoint)
				return
			}
			require.Equal(t, backupsv1alpha1.ReasonDestinationInvalid, fault.ReasonOf(err, ""))
			require.ErrorContains(t, err, "spec.template.destination.s3.endpoint")
			require.ErrorContains(t, err, c.advice)
		})
	}
}

func TestC37EndpointErrorHidesUserInformation(t *testing.T) {
	for _, in := range []string{"https://key:hunter2@s3.example", "key:hunter2@s3.example", "ftp://key:hunter2@s3.example/x?y",
		"https://key:hunter2@s3.example ", "https://key:hunter2..@s3.example", "https://key:hunter2@s3.example\n", "https://key:hunter2@s3.example/<no value>"} {
		d := destination()
		d.Endpoint = in
		_, err := Validate(d)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestC37Key(t *testing.T) {
	good := map[string]string{"": "", "a": "a/", "a/": "a/", "a/b": "a/b/", "a b/ü": "a b/ü/", ".a/b.": ".a/b./"}
	for in, want := range good {
		d := destination()
		d.Prefix = in
		got, err := Validate(d)
		require.NoError(t, err, in)
		require.Equal(t, want, got.Prefix, in)
		again, err := Validate(got)
		require.NoError(t, err)
		require.Equal(t, got, again, "the canonical form is a fixed point")
	}
	for _, in := range []string{"/", "/a", "a//b", "a//", "a/./b", ".", "a/../b", "..", "a\nb", "a\x00", " a", "a/ ", strings.Repeat("x", 701)} {
		d := destination()
		d.Prefix = in
		_, err := Validate(d)
		require.Equal(t, backupsv1alpha1.ReasonDestinationInvalid, fault.ReasonOf(err, ""), "%q: %v", in, err)
		require.ErrorContains(t, err, "spec.template.destination.s3.key")
	}
}

func TestBucketRegionAndCredentials(t *testing.T) {
	bad := map[string]func(*Destination){
		"bucket empty":      func(d *Destination) { d.Bucket = "" },
		"bucket short":      func(d *Destination) { d.Bucket = "ab" },
		"bucket upper":      func(d *Destination) { d.Bucket = "Backups" },
		"bucket slash":      func(d *Destination) { d.Bucket = "backups/x" },
		"bucket address":    func(d *Destination) { d.Bucket = "10.0.0.1" },
		"bucket dash":       func(d *Destination) { d.Bucket = "backups-" },
		"bucket no value":   func(d *Destination) { d.Bucket = "<no value>" },
		"region":            func(d *Destination) { d.Region = "eu/1" },
		"credentials empty": func(d *Destination) { d.CredentialsSecretName = "" },
		"credentials upper": func(d *Destination) { d.CredentialsSecretName = "Creds" },
		"credentials path":  func(d *Destination) { d.CredentialsSecretName = "../creds" },
	}
	for name, edit := range bad {
		t.Run(name, func(t *testing.T) {
			d := destination()
			edit(&d)
			_, err := Validate(d)
			require.Equal(t, backupsv1alpha1.ReasonDestinationInvalid, fault.ReasonOf(err, ""))
			require.ErrorContains(t, err, strings.Fields(name)[0])
		})
	}
}
