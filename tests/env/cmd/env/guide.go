package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cozy-etcd/cozy-etcd/tests/env"
)

// guide are the commands by which this environment becomes a platform with one tenant, to be typed in a second terminal at the root of the repository.
const guide = `
No controller runs yet. In two more terminals, at the root of the repository, with the export above in both:

  make build
  helm install etcd-controller charts/etcd-controller -n cozy-etcd-system --create-namespace --set crds.install=false
  bin/etcd-controller --kubeconfig $KUBECONFIG --namespace cozy-etcd-system --etcd-resolve '*=<FRONT>' \
    --metrics-bind-address 127.0.0.1:8080 --health-probe-bind-address 127.0.0.1:8081

  kubectl apply -f examples/backup/strategy.yaml -f examples/backup/backupclass.yaml
  kubectl patch backupclass etcd-s3 --type=json -p '[
    {"op": "replace", "path": "/spec/strategies/0/parameters/endpoint", "value": "<ENDPOINT>"},
    {"op": "replace", "path": "/spec/strategies/0/parameters/bucket", "value": "<BUCKET>"},
    {"op": "replace", "path": "/spec/strategies/0/parameters/region", "value": "<REGION>"}]'
  helm install etcd charts/etcd -n tenant-a --create-namespace -f examples/values/small.yaml
  kubectl -n tenant-a create secret generic etcd-backup-credentials \
    --from-literal=AWS_ACCESS_KEY_ID=<ACCESS> --from-literal=AWS_SECRET_ACCESS_KEY=<SECRET>
  kubectl -n tenant-a apply -f examples/backup/backupjob.yaml
  kubectl -n tenant-a wait backupjob/before-upgrade --for=jsonpath='{.status.completedAt}' --timeout=5m
  kubectl -n tenant-a get backupjob,backup
`

func showGuide(out io.Writer, e *env.Env) {
	filled := strings.NewReplacer(
		"<FRONT>", e.Front.Addr(), "<ENDPOINT>", e.S3.Endpoint, "<BUCKET>", e.S3.Bucket, "<REGION>", e.S3.Region, "<ACCESS>", e.S3.AccessKey, "<SECRET>", e.S3.SecretKey)
	_, _ = fmt.Fprint(out, filled.Replace(guide))
}
