package escalation_test

import (
	"encoding/json"
	"testing"

	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

// Every version reads what an earlier one stored, and stores it as that did.
func TestAStoredPolicyKeepsItsBytes(t *testing.T) {
	for _, stored := range []string{
		`{"name":"lab","description":"results","priority":10,"tenants":["acme"],"types":["lab.*"],` +
			`"reasons":["deadline"],` +
			`"steps":[{"after":0,"channels":["oncall"]}],"repeat":3600000000000,"max_duration":86400000000000,` +
			`"window":60000000000,` +
			`"revision":2,"change":"updated","reason":"moved","updated_by":"jo",` +
			`"updated_at":"2026-02-03T04:05:06.000000007Z",` +
			`"created_at":"2026-01-02T03:04:05Z"}`,
		`{"name":"lab","priority":10,"steps":[{"after":0,"channels":["oncall"]}],"repeat":0,` +
			`"max_duration":86400000000000,` +
			`"window":60000000000,"revision":3,"change":"deleted","updated_by":"jo",` +
			`"updated_at":"2026-02-03T04:05:06Z",` +
			`"created_at":"2026-01-02T03:04:05Z","deleted":true}`,
	} {
		p, err := escalation.Policies().Decode([]byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(p); err != nil || string(got) != stored {
			t.Errorf("it was stored as\n%s\nand is now\n%s\n%v", stored, got, err)
		}
	}
}
