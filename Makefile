# Everything builds from Go modules; bin/ holds the tools. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
BIN := $(CURDIR)/bin
GO ?= go
GOTEST_TIMEOUT ?= 20m
UPSTREAM_CRDS ?= $(abspath $(wildcard ../shared/upstream/crds))
TRANSCRIPTS ?= $(abspath $(wildcard ../shared/transcripts))
export UPSTREAM_CRDS TRANSCRIPTS
# Pure Go links faster and needs no C library on the machine that runs it; only the race detector wants cgo.
export CGO_ENABLED ?= 0
LINK := -ldflags=-w
# Most of these wait for etcd, and the last to end should not be the last to begin.
LONGEST := ./tests/e2e ./tests/contract ./controller/internal/restorejob ./tests/crash ./tests/env ./tests/conformance ./tests/env/helmcontroller ./controller/internal/backupjob

.DEFAULT_GOAL := help

##@ Show
.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"; printf "usage: make TARGET\n"} /^[a-zA-Z_-]+:.*?##/ {printf "  %-16s %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: demo
demo: tools ## The main job, end to end, on the local environment: install, back up, damage, restore
	$(GO) build -o $(BIN)/etcd-controller ./controller/cmd/etcd-controller
	$(GO) build -o $(BIN)/demo ./tests/demo
	COZY_ETCD_CONTROLLER=$(BIN)/etcd-controller $(BIN)/demo

.PHONY: env
env: tools ## Bring the local environment up in the foreground until Ctrl-C
	$(GO) build -o $(BIN)/env ./tests/env/cmd/env
	$(BIN)/env

##@ Test
.PHONY: test
test: tools chart-tools ## All tests
	$(BIN)/helm-unittest charts/etcd charts/etcd-controller
	$(GO) test $(LINK) -p 3 -timeout $(GOTEST_TIMEOUT) $(LONGEST) ./...

.PHONY: test-race
test-race: tools ## All Go tests with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 60m ./...

.PHONY: crash-replay
crash-replay: tools ## Kill the controller after each of its writes, lose and refuse each; all must end as if undisturbed (CRASH_REPLAY=kill: only kill)
	CRASH_REPLAY=$${CRASH_REPLAY:-all} $(GO) test $(LINK) -count=1 -timeout 60m -run C62 -v ./controller/internal/...
	CRASH_REPLAY=$${CRASH_REPLAY:-all} $(GO) test $(LINK) -count=1 -timeout 300m -v ./tests/crash/...

.PHONY: bench
bench: tools ## Measure overhead, downtime, artifacts (BENCH_… in docs/benchmarks.md; by default up to 4 GiB, with 20 GiB of scratch)
	$(GO) test $(LINK) -run '^$$' -bench . -benchtime 1x -count 1 -timeout 60m ./tests/bench/... ./backupstrategy/...

.PHONY: flip-rows
flip-rows: ## Negate each row of the decision tables: a test must fail for each
	hack/flip-rows.sh

.PHONY: conformance
conformance: ## Same verdicts as the upstream CRDs (UPSTREAM_CRDS=folder)
	@if [ -z "$$UPSTREAM_CRDS" ]; then echo "conformance: UPSTREAM_CRDS names no folder with the upstream CRDs: nothing to compare with"; \
	else $(MAKE) tools && $(GO) test $(LINK) -count=1 -timeout $(GOTEST_TIMEOUT) ./tests/conformance/...; fi

.PHONY: contract
contract: tools ## The operator's contract against a real operator (KUBECONFIG=…, CONTRACT_S3_…: see tests/env/README.md)
	@test -n "$(KUBECONFIG)" || { echo "name the cluster: make contract KUBECONFIG=…"; exit 1; }
	CONTRACT_KUBECONFIG=$(abspath $(KUBECONFIG)) $(GO) test $(LINK) -count=1 -timeout 120m -run TestRealOperator -v ./tests/contract/...

##@ Build
.PHONY: build
build: ## Build the controller into bin/
	$(GO) build -o $(BIN)/etcd-controller ./controller/cmd/etcd-controller

.PHONY: generate
generate: ## Generate deepcopy, CRDs, RBAC, chart schema and tables
	hack/build-tools.sh gen
	hack/generate.sh

.PHONY: tools
tools: ## Build the servers that tests and demo run (kube-apiserver, etcd, S3)
	@hack/build-tools.sh etcd kube s3

.PHONY: chart-tools
chart-tools:
	@hack/build-tools.sh chart

##@ Check
.PHONY: verify
verify: generate lint ## Generated files are current, lint is clean
	@git diff --exit-code --stat || { echo "generated files are not current: commit what 'make generate' wrote"; exit 1; }
	@test -z "$$(git status --porcelain --untracked-files=normal)" || { git status --short; echo "uncommitted or ungenerated files"; exit 1; }

.PHONY: lint
lint: ## golangci-lint and the size check
	@hack/build-tools.sh lint
	hack/check-sizes.sh
	$(BIN)/golangci-lint run ./...

.PHONY: clean
clean: ## Remove built tools
	rm -rf $(BIN)
