package backupstrategy

import (
	"errors"
	"fmt"
	"strings"

	backupsv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/backups/v1alpha1"
	strategyv1alpha1 "github.com/cozy-etcd/cozy-etcd/controller/api/strategy/v1alpha1"
)

// Check says what is wrong with a strategy before any job meets it: templates that do not parse, parameters that a class row does not give, and
// destinations that could not be written to. Each problem names the row and the field. What depends on an application's own fields cannot be told here.
func Check(strategy *strategyv1alpha1.Etcd, classes []backupsv1alpha1.BackupClass) []string {
	var problems []string
	if _, err := (Trust{Strategy: strategy}).formerTemplates(); err != nil {
		problems = append(problems, err.Error())
	}
	s3 := strategy.Spec.Template.Destination.S3
	if s3 == nil {
		return append(problems, fieldPath+" is not set: it is the only store that the strategy knows")
	}
	if broken := checkSyntax(s3); len(broken) > 0 {
		return append(problems, broken...)
	}
	for i := range classes {
		for n, row := range classes[i].Spec.Strategies {
			if !IsEtcdStrategy(row.StrategyRef) || row.StrategyRef.Name != strategy.Name {
				continue
			}
			if err := checkRow(strategy, row); err != nil {
				problems = append(problems, fmt.Sprintf("BackupClass %q, spec.strategies[%d]: %s", classes[i].Name, n, err))
			}
		}
	}
	return problems
}

func checkSyntax(s3 *strategyv1alpha1.EtcdS3) []string {
	var problems []string
	for _, f := range fieldsOf(s3, &Destination{}) {
		if _, err := parseTemplate(f.name, f.template); err != nil {
			problems = append(problems, fmt.Sprintf("%s%s: the template does not parse: %s", fieldPath, f.name, err))
		}
	}
	return problems
}

// checkRow renders the strategy for applications that have nothing but their names and namespaces. Two namespaces must not share a place: whoever may write a
// Backup in the one could then name a snapshot of the other as its own.
func checkRow(strategy *strategyv1alpha1.Etcd, row backupsv1alpha1.BackupClassStrategy) error {
	ref := StrategyRef("etcd")
	ref.APIGroup, ref.Kind = row.Application.APIGroup, row.Application.Kind
	one, err := Render(strategy.Spec.Template, Application(ref, "one", nil), row.Parameters)
	var other Destination
	if err == nil {
		other, err = Render(strategy.Spec.Template, Application(ref, "other", nil), row.Parameters)
	}
	var missing *missingKey
	switch {
	case errors.As(err, &missing) && strings.HasPrefix(missing.path, ".Application"):
		return nil
	case err != nil:
		return err
	case one.Endpoint == other.Endpoint && one.Bucket == other.Bucket && one.Prefix == other.Prefix:
		return fmt.Errorf("%skey renders to %q for every namespace, so tenants' snapshots cannot be told apart: put {{ .Application.metadata.namespace }}/ into it, or into the bucket",
			fieldPath, one.Prefix)
	}
	return nil
}
