# Chaos against the real programs; docs/torture.md.
DURATION ?= 5m
SEED ?= $(shell date +%s)

.PHONY: torture
torture: engine ## Kill, freeze and cut off every part under load for DURATION (5m) with SEED, then check every promise
	@echo "repeat with: make torture SEED=$(SEED) DURATION=$(DURATION)"
	go test ./test/torture -count=1 -v -timeout 0 -run Torture -seed $(SEED) -duration $(DURATION)

.PHONY: false-alarms
false-alarms: engine ## Ask doctor, ledger verify and audit completeness under load and restarts for DURATION (5m): nothing may be called wrong
	go test -tags falsealarms ./test/e2e -count=1 -v -timeout 0 -run NothingIsCalledWrong -false-alarms $(DURATION)
