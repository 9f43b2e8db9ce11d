# Chaos against the real programs; docs/torture.md.
DURATION ?= 5m
SEED ?= $(shell date +%s)

.PHONY: torture
torture: engine ## Kill, freeze and cut off every part under load for DURATION (5m) with SEED, then check every promise
	@echo "repeat with: make torture SEED=$(SEED) DURATION=$(DURATION)"
	go test ./test/torture -count=1 -v -timeout 0 -run Torture -seed $(SEED) -duration $(DURATION)
