#!/usr/bin/env bash
# Negates each row's predicate of every Decide table in turn and runs the table's tests: at least one must fail for each row.
# The tests themselves flip the row that FLIP_ROW names; the product knows nothing of it.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
survivors=0
for pkg in $(git grep -l 'os.Getenv("FLIP_ROW")' -- 'controller/**/*_test.go' | xargs -n1 dirname | sort -u); do
  go test -ldflags=-w -c -o "$scratch/table.test" "./$pkg"
  run() { (cd "$pkg" && FLIP_ROW=${1:-} "$scratch/table.test" -test.run '^TestDecide' -test.failfast -test.v) >"$scratch/log" 2>&1; }
  run || { cat "$scratch/log"; echo "$pkg: the tests fail without any flip"; exit 1; }
  grep -q '^--- PASS: TestDecide' "$scratch/log" || { echo "$pkg: no test is called TestDecide…"; exit 1; }
  rows=0
  for row in $(grep -hoE '^[[:space:]]+Row[A-Za-z]+[[:space:]]+= "[A-Za-z]+"' "$pkg"/*.go | sed 's/.*"\(.*\)"/\1/' | grep -vx None); do
    rows=$((rows + 1))
    if run "$row"; then
      echo "$pkg: no test fails with row $row flipped"
      survivors=$((survivors + 1))
    fi
  done
  [ "$rows" -gt 0 ] || { echo "$pkg: no rows found"; exit 1; }
  echo "$pkg: $rows rows flipped"
done
[ "$survivors" = 0 ] || { echo "$survivors rows are not tested"; exit 1; }
