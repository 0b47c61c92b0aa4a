#!/usr/bin/env bash
# Builds the named tools from their pinned modules in hack/tools into bin/ (only those that are missing or whose module file changed).
# usage: hack/build-tools.sh [etcd|kube|s3|gen|lint|chart|all]...
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-$PWD/bin}
mkdir -p "$BIN"
export CGO_ENABLED=0

# build OUT MODULE PACKAGE [LDFLAGS]: a stamp of go.mod and go.sum beside the binary tells whether it is current.
build() {
  local out=$BIN/$1 dir=hack/tools/$2 pkg=$3 ld=${4:-} stamp
  stamp=$(cat "$dir/go.mod" "$dir/go.sum" | sha256sum | cut -c1-16)
  [ -x "$out" ] && [ "$(cat "$out.stamp" 2>/dev/null)" = "$stamp" ] && return
  echo "building $1 (from $dir; the first time takes a while)" >&2
  go build -C "$dir" -trimpath -ldflags "-s -w $ld" -o "$out" "$pkg"
  echo "$stamp" >"$out.stamp"
}
version_of() { awk -v m="$2" '$1 == m || $2 == m {for (i = 1; i <= NF; i++) if ($i ~ /^v[0-9]/) {print $i; exit}}' "hack/tools/$1/go.mod"; }

etcd() {
  local family
  for family in etcd3611 etcd36 etcd35; do
    local v
    v=$(version_of $family go.etcd.io/etcd/server/v3)
    build "etcd-${v#v}" $family go.etcd.io/etcd/server/v3
    build "etcdutl-${v#v}" $family go.etcd.io/etcd/etcdutl/v3
  done
  build etcdctl etcd36 go.etcd.io/etcd/etcdctl/v3
}
kube() {
  local v c
  v=$(version_of kube k8s.io/kubernetes)
  for c in kube-apiserver kube-controller-manager; do
    [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$c" ] && continue
    build $c kube k8s.io/kubernetes/cmd/$c "-X k8s.io/component-base/version.gitVersion=$v -X k8s.io/component-base/version.gitTreeState=clean"
  done
}
s3() { build versitygw s3 github.com/versity/versitygw/cmd/versitygw; }
gen() { build controller-gen gen sigs.k8s.io/controller-tools/cmd/controller-gen; }
lint() { build golangci-lint lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint; }
chart() {
  build kubeconform gen github.com/yannh/kubeconform/cmd/kubeconform
  build helm-unittest helmunittest github.com/helm-unittest/helm-unittest/cmd/helm-unittest
}
[ $# -gt 0 ] || set -- all
for family in "$@"; do
  if [ "$family" = all ]; then etcd; kube; s3; gen; lint; chart; else "$family"; fi
done
