# Everything a developer runs. `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# An interrupted recipe leaves no target that looks finished.
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The modules of this repository: the product, its measurements, and tests whose libraries the product must not require.
MODULES := . bench test/interop test/compose test/monitoring test/transparency
NODE_PACKAGES := test/interop/node/node_modules/.package-lock.json
# The race detector needs a C compiler; without one, the tests run without it and say so.
RACE ?= $(if $(shell command -v $${CC:-cc} gcc 2>/dev/null),-race)
# Tests start servers and processes: more packages at once than cores only makes each of them late, but within a
# package most tests wait.
TESTFLAGS ?= -p 2 -parallel 4 -timeout 20m
# The packages that take longest start first: one that starts last runs alone, on one core.
LONG := internal/ledger test/pipeline internal/ledger/sink internal/ledger/transparency test/torture internal/ledger/evidence internal/ledger/roles
FUZZTIME ?= 30s

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: engine build ## Fetch the ledger engine, build, and watch it work: waybill demo
	@bin/waybill demo

.PHONY: up
up: engine build ## Fetch the ledger engine, build, and run everything on this machine: waybill up
	@bin/waybill up

.PHONY: build
build: ## Build every binary into bin/
	@mkdir -p bin/.tmp
	@# go moves each binary from its scratch directory: on the same file system that is a rename, so none is ever half there.
	GOTMPDIR="$(CURDIR)/bin/.tmp" CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

##@ Check

.PHONY: test
test: engine $(NODE_PACKAGES) vet ## Run every test of every module
	@echo "testing $(if $(RACE),with the race detector,without the race detector: no C compiler was found)"
	@# vet is done: go test need not do its share once more.
	@go run ./test/lint/testcount $(MODULES:%=-dir %) $(LONG:%=-first ./%) -- $(RACE) -vet=off $(TESTFLAGS)

.PHONY: test-race
test-race: RACE := -race
test-race: test ## The same, and fail if the race detector is not to be had

.PHONY: test-disk
test-disk: engine ## Fill a small disk under the real programs; needs root, to mount it
	go test -tags disk -count=1 -timeout 10m ./test/operations -run Disk

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s)
	@grep -rlE --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
	    echo "fuzz: $$(dirname "$$file") $$name for $(FUZZTIME)"; \
	    go test -run '^$$' -fuzz "^$$name$$" -fuzztime '$(FUZZTIME)' "$$(dirname "$$file")" || exit 1; \
	  done; \
	done

.PHONY: lint
lint: vet ## Check formatting and run go vet and staticcheck
	@unformatted=$$(gofmt -l $(wildcard *.go) cmd internal pkg streams test testdata); \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	@for dir in $(MODULES); do (cd $$dir && go tool -modfile="$(CURDIR)/test/lint/tools.mod" staticcheck ./...); done

.PHONY: vet
vet:
	@for dir in $(MODULES); do (cd $$dir && go vet ./...); done

$(NODE_PACKAGES): test/interop/node/package-lock.json test/interop/node/package.json
	@echo "fetching the Node.js libraries that receivers use"
	@# npm writes the file that is this target last, so an interruption makes the next run start again.
	@cd test/interop/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: bench
bench: engine build ## Measure Waybill beside the raw ceiling of this machine; writes bench/report.md and report.json (13 minutes)
	@cd bench && go build -o ../bin/.tmp/bench .
	@bin/.tmp/bench

##@ Keep

.PHONY: docs
docs: engine ## Make the references of commands, settings and the ledger's columns, and deploy/clickhouse, anew from the programs
	@go test ./internal/app/cli -update
	@go test ./test/lint -run TestThePicture -update
	@go test ./internal/ledger -run TestTheDictionary -update
	@go run ./cmd/waybill ledger roles --print-sql > deploy/clickhouse/roles.sql
	@go run ./cmd/waybill ledger roles --print-xml > deploy/clickhouse/users.xml

.PHONY: clean
clean: ## Remove what was built; the engine stays in the cache, data in waybill-data
	rm -rf bin test/interop/node/node_modules

include engine.mk
include torture.mk
