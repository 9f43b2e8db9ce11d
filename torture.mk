# Chaos against the real programs; docs/torture.md.
DURATION ?= 5m
SEED ?= $(shell date +%s)
# The endpoints of the widest event.
WIDE ?= 50000

.PHONY: torture
torture: engine ## Kill, freeze and cut off every part under load for DURATION (5m) with SEED, then check every promise
	@echo "repeat with: make torture SEED=$(SEED) DURATION=$(DURATION)"
	go test ./test/torture -count=1 -v -timeout 0 -run 'Torture|ManyEndpoints' -seed $(SEED) -duration $(DURATION) -wide $(WIDE)

.PHONY: false-alarms
false-alarms: engine ## Ask doctor, ledger verify and audit completeness under load and restarts for DURATION (5m): nothing may be called wrong
	go test ./test/e2e -count=1 -v -timeout 0 -run NothingIsCalledWrong -false-alarms $(DURATION)
