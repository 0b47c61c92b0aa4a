#!/usr/bin/env bash
# Negates each row's predicate of every Decide table in turn and runs the table's tests: at least one must fail for each row.
# The rows are flipped by flip_test.go of each package, from FLIP_ROW; the product knows nothing of it.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
survivors=0
while read -r file; do
  pkg=$(dirname "$file")
  go test -c -o "$scratch/table.test" "./$pkg"
  run() { (cd "$pkg" && FLIP_ROW=${1:-} "$scratch/table.test" -test.run '^TestDecide' -test.failfast); }
  run >"$scratch/log" 2>&1 || { cat "$scratch/log"; echo "$pkg: the tests fail without any flip"; exit 1; }
  rows=0
  for row in $(cd "$pkg" && FLIP_ROW=list "$scratch/table.test"); do
    rows=$((rows + 1))
    if run "$row" >"$scratch/log" 2>&1; then
      echo "$pkg: no test fails with row $row flipped"
      survivors=$((survivors + 1))
    fi
  done
  echo "$pkg: $rows rows flipped"
done < <(git ls-files 'controller/**/flip_test.go')
[ "$survivors" = 0 ] || { echo "$survivors rows are not tested"; exit 1; }
