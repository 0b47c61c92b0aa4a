package backupstrategy

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
	"github.com/cozy-etcd/cozy-etcd/controller/fault"
)

// AnnotationFormerDestinations on a strategy lists places that Backups may still be read from after the strategy or a class was changed: a JSON array of
// objects like spec.template.destination.s3, templates included.
const AnnotationFormerDestinations = "cozy-etcd.io/former-destinations"

// Trust is what an administrator wrote, with the application that it is rendered for. The caller reads all of it by name from the API server; nothing in it
// comes from the Backup but the strategy's name.
type Trust struct {
	Strategy    *strategyv1alpha1.Etcd
	Classes     []backupsv1alpha1.BackupClass // all of them
	Application map[string]any                // of the job's own namespace
}

// TrustedSource returns the object that the Backup means, provided that an administrator's templates lead to the same place: the strategy rendered once
// per class row that points at it for the Backup's kind of application, and its former destinations. Endpoint, bucket, prefix and the name of the
// credentials must be equal; region and addressing style are then the administrator's. Anything else is DestinationMismatch, with the field that differs
// from the place that comes nearest.
func TrustedSource(b *backupsv1alpha1.Backup, t Trust) (S3Object, error) {
	claimed, err := RestoreSource(b)
	if err != nil {
		return S3Object{}, err
	}
	if t.Strategy.Name != b.Spec.StrategyRef.Name {
		return S3Object{}, mismatch(b, "spec.strategyRef names strategy %q, not %q", b.Spec.StrategyRef.Name, t.Strategy.Name)
	}
	if err := plainText(claimed.Key); err != nil {
		return S3Object{}, mismatch(b, "key: %w", err)
	}
	places, problem := t.places(b)
	nearest := difference{}
	for _, place := range places {
		diff := compare(claimed, place)
		if diff.field == "" {
			claimed.Endpoint, claimed.Region, claimed.ForcePathStyle = place.Endpoint, place.Region, place.ForcePathStyle
			return claimed, nil
		}
		if diff.rank > nearest.rank {
			nearest = diff
		}
	}
	switch {
	case nearest.field != "":
		return S3Object{}, mismatch(b, "%s is %q, but strategy %q makes it %q: a Backup is read only from where its strategy writes; list a former place in the strategy's annotation %s",
			nearest.field, nearest.got, t.Strategy.Name, nearest.want, AnnotationFormerDestinations)
	case problem != nil:
		return S3Object{}, mismatch(b, "strategy %q gives no place to compare with: %w", t.Strategy.Name, problem)
	default:
		return S3Object{}, mismatch(b, "no BackupClass row for this kind of application points at strategy %q, and it lists no former destinations", t.Strategy.Name)
	}
}

func mismatch(b *backupsv1alpha1.Backup, format string, args ...any) error {
	return fault.Terminalf(backupsv1alpha1.ReasonDestinationMismatch, "Backup %q: "+format, append([]any{b.Name}, args...)...)
}

// places renders every place that the strategy may have written to. Templates that do not render give none; the last problem is returned beside the others.
func (t Trust) places(b *backupsv1alpha1.Backup) (places []Destination, problem error) {
	former, problem := t.formerTemplates()
	rows := t.rowParameters(b)
	add := func(tmpl *strategyv1alpha1.EtcdS3, parameters map[string]string) {
		d, err := render(tmpl, t.Application, parameters)
		if err == nil {
			d, err = validateCommon(d)
		}
		if err != nil {
			problem = err
			return
		}
		d.Prefix = strings.TrimRight(d.Prefix, "/")
		places = append(places, d)
	}
	for _, parameters := range rows {
		add(t.Strategy.Spec.Template.Destination.S3, parameters)
	}
	if len(rows) == 0 {
		rows = []map[string]string{nil} // a former place outlives the rows that once led to it
	}
	for i := range former {
		for _, parameters := range rows {
			add(&former[i], parameters)
		}
	}
	return places, problem
}

// rowParameters are those of the class rows that point at the strategy.
func (t Trust) rowParameters(b *backupsv1alpha1.Backup) []map[string]string {
	var sets []map[string]string
	for i := range t.Classes {
		for _, row := range t.Classes[i].Spec.Strategies {
			if IsEtcdStrategy(row.StrategyRef) && row.StrategyRef.Name == t.Strategy.Name && Selects(row.Application, b.Spec.ApplicationRef) {
				sets = append(sets, row.Parameters)
			}
		}
	}
	return sets
}

func (t Trust) formerTemplates() ([]strategyv1alpha1.EtcdS3, error) {
	raw := t.Strategy.Annotations[AnnotationFormerDestinations]
	if raw == "" {
		return nil, nil
	}
	var former []strategyv1alpha1.EtcdS3
	if err := json.Unmarshal([]byte(raw), &former); err != nil {
		return nil, fmt.Errorf("annotation %s: it is no JSON array of destinations: %w", AnnotationFormerDestinations, err)
	}
	return former, nil
}

// difference is the first field that differs. A higher rank means a nearer place.
type difference struct {
	field, got, want string
	rank             int
}

func compare(o S3Object, place Destination) difference {
	endpoint, err := canonicalEndpoint(o.Endpoint)
	switch {
	case o.Bucket != place.Bucket:
		return difference{"bucket", o.Bucket, place.Bucket, 1}
	case err != nil:
		return difference{"endpoint", "not a valid URL", place.Endpoint, 2}
	case endpoint != place.Endpoint:
		return difference{"endpoint", endpoint, place.Endpoint, 2}
	}
	file := path.Base(o.Key)
	name, isSnapshot := strings.CutSuffix(file, ".db")
	if want := place.ObjectKey(name); !isSnapshot || name == "" || o.Key != want {
		return difference{"key", o.Key, place.ObjectKey("<name>"), 3}
	}
	if o.CredentialsSecretName != place.CredentialsSecretName {
		return difference{"credentials Secret name", o.CredentialsSecretName, place.CredentialsSecretName, 4}
	}
	return difference{}
}
