package registry_test

import (
	"encoding/json"
	"testing"

	"github.com/waybill-dev/waybill/internal/registry"
)

// Every version reads what an earlier one stored, and stores it as that did.
func TestWhatIsStoredKeepsItsBytes(t *testing.T) {
	same[registry.Endpoint](t, "an endpoint", `{"id":"ep_01JABCDEFGHJKMNPQRSTVWXYZ0","tenant":"acme",`+
		`"url":"https://example.com/hooks",`+
		`"types":["lab.*","order.created"],"description":"results","state":"disabled",`+
		`"state_reason":"no attempt succeeded",`+
		`"scheme":"v1","secrets":[{"key_id":"key_1","sealed":"sealed"}],"headers":[{"name":"X-Site",`+
		`"sealed":"sealed"}],`+
		`"egress_proxy":"http://proxy:3128","timeout":10000000000,"max_in_flight":32,"deliver_within":60000000000,`+
		`"disable_after":432000000000000,"enabled_at":"2026-01-02T03:04:05.000000006Z","revision":7,`+
		`"change":"disabled",`+
		`"reason":"endpoint_failing","updated_by":"waybill","updated_at":"2026-02-03T04:05:06.000000007Z",`+
		`"created_at":"2026-01-02T03:04:05.000000006Z","policies":[{"types":["lab.critical"],`+
		`"policy":{"max_attempts":1}}],`+
		`"max_per_second":2.5,"ordering":"fifo"}`)
	same[registry.Endpoint](t, "a deleted endpoint", `{"id":"ep_01JABCDEFGHJKMNPQRSTVWXYZ0",`+
		`"tenant":"acme","url":"https://example.com/hooks",`+
		`"types":["a.*"],"state":"deleted","scheme":"v1","secrets":null,"timeout":10000000000,"max_in_flight":32,`+
		`"revision":2,"change":"deleted","updated_by":"ann","updated_at":"2026-02-03T04:05:06Z",`+
		`"created_at":"2026-01-02T03:04:05Z"}`)
	same[registry.EventType](t, "an event type", `{"tenant":"acme","pattern":"lab.*",`+
		`"description":"results","deliver_within":60000000000,`+
		`"revision":3,"change":"updated","reason":"contract","updated_by":"ann",`+
		`"updated_at":"2026-02-03T04:05:06Z",`+
		`"created_at":"2026-01-02T03:04:05Z"}`)
	same[registry.EventType](t, "a deleted event type", `{"tenant":"acme","pattern":"lab.*",`+
		`"deliver_within":60000000000,"deleted":true,`+
		`"revision":4,"change":"deleted","updated_by":"ann","updated_at":"2026-02-03T04:05:06Z",`+
		`"created_at":"2026-01-02T03:04:05Z"}`)
}

func same[T any](t *testing.T, what, stored string) {
	t.Helper()
	var v T
	must(t, json.Unmarshal([]byte(stored), &v))
	if got, err := json.Marshal(v); err != nil || string(got) != stored {
		t.Errorf("%s was stored as\n%s\nand is now\n%s\n%v", what, stored, got, err)
	}
}
