#!/usr/bin/env bash
# Fails on files that outgrow the house style: Go 400 lines, tests and tables 500, chart templates 120, hack scripts 100. Generated files do not count.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
limit() { # limit MAX FILE...
  local max=$1 f n
  shift
  for f in "$@"; do
    n=$(wc -l <"$f")
    if [ "$n" -gt "$max" ]; then echo "$f has $n lines, at most $max are allowed: split it by what it does"; bad=1; fi
  done
}
mapfile -t go < <(git ls-files '*.go' | grep -v -E '(zz_generated|_test\.go$|/api/.*types\.go$)')
mapfile -t tables < <(git ls-files '*_test.go' '*types.go' | grep -v zz_generated)
mapfile -t templates < <(git ls-files 'charts/*/templates/*')
mapfile -t scripts < <(git ls-files 'hack/*.sh')
limit 400 "${go[@]}"
limit 500 "${tables[@]}"
limit 120 "${templates[@]}"
limit 100 "${scripts[@]}"
exit $bad
