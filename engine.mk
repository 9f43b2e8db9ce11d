##@ Ledger engine

# The ClickHouse engine that `waybill up` runs when no server is given.
WAYBILL_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/waybill

.PHONY: engine engine-library engine-binary

engine: engine-library engine-binary ## Fetch the ClickHouse engine and build its launcher into the cache (once; 566 MB)

engine-library: ## Fetch and check libchdb.so only
	@third_party/chdb/fetch.sh "$(WAYBILL_CACHE)"

# purego needs no C compiler; without CGO_ENABLED=0 the build would look for one.
engine-binary: ## Build waybill-clickhouse into the cache, where tests and `go run ./cmd/waybill` find it
	@mkdir -p "$(WAYBILL_CACHE)/bin"
	@CGO_ENABLED=0 go build -trimpath -o "$(WAYBILL_CACHE)/bin/waybill-clickhouse.new" ./cmd/waybill-clickhouse
	@mv -f "$(WAYBILL_CACHE)/bin/waybill-clickhouse.new" "$(WAYBILL_CACHE)/bin/waybill-clickhouse"
	@echo "engine: $(WAYBILL_CACHE)/bin/waybill-clickhouse is built"

.PHONY: bench-schema
bench-schema: ## Compare layouts of the records table at ten million rows (20 minutes, 12 GB; docs/schema-measurements.md)
	cd bench && go run ./schemabench
