package backupstrategy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// maxRendered bounds one rendered string, in bytes; an S3 key holds at most 1024.
const maxRendered = 1024

const fieldPath = "spec.template.destination.s3."

// Render renders the strategy's templates over the application and the parameters of a BackupClass row, and validates the outcome (see Validate). A key
// that is missing in either is an error that names the key and the template's field.
func Render(tmpl strategyv1alpha1.EtcdTemplate, application map[string]any, parameters map[string]string) (Destination, error) {
	d, err := render(tmpl.Destination.S3, application, parameters)
	if err != nil {
		return Destination{}, err
	}
	if tmpl.Destination.S3.Key != "" && d.Prefix == "" {
		return Destination{}, invalid("key", errors.New("the template renders to nothing, and everybody would write to the top of the bucket: is a value empty? "+
			"Leave the field out if that is meant"))
	}
	return Validate(d)
}

// render gives the strings as the templates make them.
func render(s3 *strategyv1alpha1.EtcdS3, application map[string]any, parameters map[string]string) (Destination, error) {
	if s3 == nil {
		return Destination{}, fault.Terminalf(backupsv1alpha1.ReasonTemplateInvalid, "spec.template.destination.s3 is not set: it is the only store that the strategy knows")
	}
	data := map[string]any{"Application": application, "Parameters": asAny(parameters)}
	d := Destination{ForcePathStyle: s3.ForcePathStyle}
	for _, f := range fieldsOf(s3, &d) {
		out, err := renderField(f.name, f.template, data)
		if err != nil {
			return Destination{}, err
		}
		*f.out = out
	}
	return d, nil
}

type field struct {
	name     string
	template string
	out      *string
}

func fieldsOf(s3 *strategyv1alpha1.EtcdS3, d *Destination) []field {
	return []field{
		{"endpoint", s3.Endpoint, &d.Endpoint},
		{"bucket", s3.Bucket, &d.Bucket},
		{"key", s3.Key, &d.Prefix},
		{"region", s3.Region, &d.Region},
		{"credentialsSecretRef.name", s3.CredentialsSecretRef.Name, &d.CredentialsSecretName},
	}
}

func renderField(name, text string, data map[string]any) (string, error) {
	t, err := parseTemplate(name, text)
	if err != nil {
		return "", fault.Terminalf(backupsv1alpha1.ReasonTemplateInvalid, "%s%s: the template does not parse: %w", fieldPath, name, err)
	}
	out := &limitedBuilder{limit: maxRendered}
	switch err := t.Execute(out, data); {
	case errors.Is(err, errEndless):
		return "", fault.Terminalf(backupsv1alpha1.ReasonTemplateInvalid, "%s%s: %w", fieldPath, name, errEndless)
	case errors.Is(err, errTooLong):
		return "", fault.Terminalf(backupsv1alpha1.ReasonDestinationInvalid, "%s%s renders to more than %d bytes", fieldPath, name, maxRendered)
	case err != nil:
		return "", fault.Terminalf(backupsv1alpha1.ReasonTemplateInvalid, "%s%s: %w", fieldPath, name, executionError(err))
	}
	return out.String(), nil
}

// noEntry and location match the error text of text/template, which has no typed form.
var (
	noEntry  = regexp.MustCompile(`map has no entry for key "([^"]*)"`)
	location = regexp.MustCompile(`at <([^>]*)>`)
)

// missingKey is what a template wants and does not get.
type missingKey struct{ path, key string }

// Error names the key and says who can give it.
func (m *missingKey) Error() string {
	remedy := "a template sees .Application and .Parameters only"
	switch {
	case strings.HasPrefix(m.path, ".Application"):
		remedy = "the application has no such field"
	case strings.HasPrefix(m.path, ".Parameters"):
		remedy = "give it in the parameters of the BackupClass row"
	}
	return fmt.Sprintf("the template wants %s, but there is no key %q: %s", m.path, m.key, remedy)
}

// executionError names the missing key where there is one.
func executionError(err error) error {
	key := noEntry.FindStringSubmatch(err.Error())
	if key == nil {
		return err
	}
	missing := &missingKey{path: key[1], key: key[1]}
	if at := location.FindStringSubmatch(err.Error()); at != nil {
		missing.path = at[1]
	}
	return missing
}

func asAny(parameters map[string]string) map[string]any {
	m := make(map[string]any, len(parameters))
	for k, v := range parameters {
		m[k] = v
	}
	return m
}
