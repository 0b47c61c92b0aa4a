#!/usr/bin/env bash
# Writes everything that is derived from the Go types: deepcopy functions, our CRDs and role into the platform chart, and
# the CRDs of the mirror types into the local test environment. Run it after editing a type or a marker.
# usage: hack/generate.sh [--check]   (--check fails when the tree differs from what would be written)
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-$PWD/bin}
hack/build-tools.sh gen
gen=$BIN/controller-gen

ours=(backups/v1alpha1 strategy/v1alpha1)
mirrors=(etcdoperator/v1alpha2 flux/v2 kamaji/v1alpha1 cozystack/v1alpha1)
paths() { local p; for p in "$@"; do printf 'paths=./controller/api/%s\n' "$p"; done; }
generated=(controller/api charts/etcd-controller tests/env/crds charts/etcd values.schema.json)

"$gen" object paths=./controller/api/...

# Descriptions stay in ours, as kubectl explain shows them; in the mirrors they would only be weight.
rm -f charts/etcd-controller/files/crds/*.yaml tests/env/crds/*.yaml
mapfile -t args < <(paths "${ours[@]}")
"$gen" crd "${args[@]}" output:crd:dir=charts/etcd-controller/files/crds
mapfile -t args < <(paths "${mirrors[@]}")
"$gen" crd:maxDescLen=0 "${args[@]}" output:crd:dir=tests/env/crds

# The controller's rights, from the +kubebuilder:rbac markers beside the code that needs them.
rm -f charts/etcd-controller/files/role.yaml
"$gen" rbac:roleName=etcd-controller paths=./controller/... output:rbac:dir=charts/etcd-controller/files

# The charts' values schemas and the tables of their READMEs, from the comments in values.yaml.
go run ./hack/chartdocs . charts/etcd charts/etcd-controller

if [ "${1:-}" = --check ] && [ -n "$(git status --porcelain -- "${generated[@]}")" ]; then
  git --no-pager diff --stat -- "${generated[@]}"
  git status --short -- "${generated[@]}"
  echo "generated files are stale: run hack/generate.sh and commit" >&2
  exit 1
fi
