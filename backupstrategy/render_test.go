package backupstrategy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

func templateS3() *strategyv1alpha1.EtcdS3 {
	return &strategyv1alpha1.EtcdS3{
		Endpoint:             "https://{{ .Parameters.host }}",
		Bucket:               "{{ .Parameters.bucket }}",
		Key:                  "{{ .Parameters.install }}/{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/",
		Region:               "us-east-1",
		ForcePathStyle:       true,
		CredentialsSecretRef: strategyv1alpha1.SecretRef{Name: "{{ .Application.metadata.name }}-creds"},
	}
}

func templateOf(s3 *strategyv1alpha1.EtcdS3) strategyv1alpha1.EtcdTemplate {
	return strategyv1alpha1.EtcdTemplate{Destination: strategyv1alpha1.EtcdDestination{S3: s3}}
}

func parameters() map[string]string {
	return map[string]string{"host": "s3.example", "bucket": "backups", "install": "prod"}
}

func application(namespace string) map[string]any { return Application(etcdRef(), namespace, nil) }

func TestRender(t *testing.T) {
	d, err := Render(templateOf(templateS3()), application("acme"), parameters())
	require.NoError(t, err)
	require.Equal(t, Destination{
		Endpoint: "https://s3.example", Bucket: "backups", Prefix: "prod/acme/etcd/", Region: "us-east-1", ForcePathStyle: true, CredentialsSecretName: "etcd-creds",
	}, d)
}

// C21: with the namespace alone as key, one tenant's prefix would begin another's.
func TestC21PrefixIsClosed(t *testing.T) {
	s3 := templateS3()
	s3.Key = "{{ .Application.metadata.namespace }}"
	acme, err := Render(templateOf(s3), application("acme"), parameters())
	require.NoError(t, err)
	prod, err := Render(templateOf(s3), application("acme-prod"), parameters())
	require.NoError(t, err)
	require.Equal(t, "acme/", acme.Prefix)
	require.False(t, strings.HasPrefix(prod.ObjectKey("x"), acme.Prefix))
	require.Equal(t, "acme/x.db", acme.ObjectKey("x"))
}

func TestC23MissingKeyNamesFieldAndKey(t *testing.T) {
	cases := map[string]struct {
		edit func(*strategyv1alpha1.EtcdS3)
		want []string
	}{
		"parameter": {func(s *strategyv1alpha1.EtcdS3) {
			s.Key = "{{ .Parameters.tenantPrefix }}/{{ .Application.metadata.name }}"
		},
			[]string{"spec.template.destination.s3.key", `"tenantPrefix"`, "BackupClass row"}},
		"application field": {func(s *strategyv1alpha1.EtcdS3) { s.Bucket = "{{ .Application.spec.bucket }}" },
			[]string{"spec.template.destination.s3.bucket", `"bucket"`, "no such field"}},
		"nested application field": {func(s *strategyv1alpha1.EtcdS3) { s.Region = "{{ .Application.spec.backup.region }}" },
			[]string{"spec.template.destination.s3.region", `"backup"`}},
		"root": {func(s *strategyv1alpha1.EtcdS3) { s.Endpoint = "{{ .Tenant.host }}" },
			[]string{"spec.template.destination.s3.endpoint", `"Tenant"`, ".Application and .Parameters only"}},
		"dash": {func(s *strategyv1alpha1.EtcdS3) { s.Bucket = "{{ .Parameters.my-bucket }}" },
			[]string{"spec.template.destination.s3.bucket", `index .Parameters "my-bucket"`}},
		"does not parse": {func(s *strategyv1alpha1.EtcdS3) { s.CredentialsSecretRef.Name = "{{ .Parameters.x" },
			[]string{"spec.template.destination.s3.credentialsSecretRef.name", "parse"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s3 := templateS3()
			c.edit(s3)
			_, err := Render(templateOf(s3), application("acme"), parameters())
			require.Equal(t, fault.Terminal, fault.ClassOf(err))
			require.Equal(t, backupsv1alpha1.ReasonTemplateInvalid, fault.ReasonOf(err, ""))
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestC23RenderedValueIsValidated(t *testing.T) {
	bad := map[string]string{
		"index of a missing key":  `{{ index .Parameters "nobody" }}/x`,
		"null in the application": "{{ .Application.spec.null }}/x",
		"newline":                 "a{{ \"\\n\" }}b",
		"parent":                  "a/../b",
		"leading slash":           "/{{ .Application.metadata.name }}",
		"unresolved braces":       "{{ \"{{\" }} .x }}",
		"printf without argument": `{{ printf "%s" }}`,
		"empty segment":           "{{ .Parameters.empty }}/x",
		"empty in the middle":     "a/{{ .Parameters.empty }}/x",
		"not UTF-8":               "{{ .Parameters.bytes }}",
		"nothing":                 "{{ .Parameters.empty }}",
		"nothing, by a condition": `{{ with index .Parameters "nobody" }}{{ . }}/x{{ end }}`,
		"a map":                   "{{ .Application.spec.map }}/x",
		"the map of everything":   "{{ .Application.metadata }}/x",
	}
	for name, key := range bad {
		t.Run(name, func(t *testing.T) {
			s3 := templateS3()
			s3.Key = key
			p := parameters()
			p["empty"], p["bytes"] = "", "a\xffb"
			_, err := Render(templateOf(s3), Application(etcdRef(), "acme", map[string]any{"null": nil, "map": map[string]any{"a": "b"}}), p)
			require.Equal(t, backupsv1alpha1.ReasonDestinationInvalid, fault.ReasonOf(err, ""), "%v", err)
			require.ErrorContains(t, err, "spec.template.destination.s3.key")
		})
	}
}

func TestRenderStopsATemplateWithoutEnd(t *testing.T) {
	s3 := templateS3()
	s3.Key = `{{ printf "%5000d" 1 }}`
	_, err := Render(templateOf(s3), application("acme"), parameters())
	require.Equal(t, backupsv1alpha1.ReasonDestinationInvalid, fault.ReasonOf(err, ""))
}

// Each of these would keep a worker busy for hours, or fill its memory, without writing a byte.
func TestRenderStopsALoop(t *testing.T) {
	endless := map[string]string{
		"a range over a number":    `{{ range 999999999999 }}{{ end }}x`,
		"ranges in ranges":         `{{ range 999 }}{{ range 999 }}{{ range 999 }}{{ range 999 }}{{ end }}{{ end }}{{ end }}{{ end }}x`,
		"a range below an if":      `{{ if true }}{{ with 1 }}{{ range 999999999999 }}{{ continue }}{{ end }}{{ end }}{{ end }}x`,
		"a range in an else":       `{{ if false }}{{ else }}{{ with 0 }}{{ else }}{{ range 0 }}{{ else }}{{ range 999999999999 }}{{ end }}{{ end }}{{ end }}{{ end }}x`,
		"a template of itself":     `{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}x`,
		"a template of two others": `{{ define "a" }}{{ template "b" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ template "a" }}{{ end }}{{ template "a" }}x`,
		"a text that doubles":      `{{ $x := "ab" }}{{ range 60 }}{{ $x = printf "%s%s" $x $x }}{{ end }}x`,
		"escapes of escapes":       `{{ $x := "\\" }}{{ range 60 }}{{ $x = js $x }}{{ end }}x`,
		"print and println":        `{{ $x := "ab" }}{{ range 60 }}{{ $x = print (println $x $x) $x }}{{ end }}x`,
	}
	for name, key := range endless {
		t.Run(name, func(t *testing.T) {
			s3 := templateS3()
			s3.Key = key
			_, err := Render(templateOf(s3), application("acme"), parameters())
			require.Equal(t, backupsv1alpha1.ReasonTemplateInvalid, fault.ReasonOf(err, ""), "%v", err)
			require.ErrorContains(t, err, "spec.template.destination.s3.key: the template takes more than")
		})
	}
	s3 := templateS3()
	s3.Key = `{{ range $i, $part := .Application.spec.parts }}{{ if $i }}/{{ end }}{{ printf "%s" $part | urlquery }}{{ end }}`
	d, err := Render(templateOf(s3), Application(etcdRef(), "acme", map[string]any{"parts": []any{"a", "b"}}), parameters())
	require.NoError(t, err, "an honest loop is no harm")
	require.Equal(t, "a/b/", d.Prefix)
}

func TestRenderNeedsS3(t *testing.T) {
	_, err := Render(templateOf(nil), application("acme"), nil)
	require.Equal(t, backupsv1alpha1.ReasonTemplateInvalid, fault.ReasonOf(err, ""))
}

// A value that looks like a template is a value.
func TestRenderIsNotRecursive(t *testing.T) {
	s3 := templateS3()
	p := parameters()
	p["bucket"] = "{{ .Application.metadata.namespace }}"
	_, err := Render(templateOf(s3), application("acme"), p)
	require.Equal(t, backupsv1alpha1.ReasonDestinationInvalid, fault.ReasonOf(err, ""))
}
