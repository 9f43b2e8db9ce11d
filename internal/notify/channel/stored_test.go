package channel_test

import (
	"encoding/json"
	"testing"

	"github.com/waybill-dev/waybill/internal/notify/channel"
)

// Every version reads what an earlier one stored, and stores it as that did.
func TestAStoredChannelKeepsItsBytes(t *testing.T) {
	for _, stored := range []string{
		`{"name":"oncall","kind":"email","secret":"sealed","from":"a@example.com","to":["b@example.com"],` +
			`"host":"smtp.example.com",` +
			`"port":587,"tls":"starttls","username":"waybill","revision":2,"change":"updated","reason":"moved",` +
			`"updated_by":"jo",` +
			`"updated_at":"2026-02-03T04:05:06.000000007Z","created_at":"2026-01-02T03:04:05Z"}`,
		`{"name":"bus","kind":"nats","subject":"ops.alerts","revision":3,"change":"deleted","updated_by":"jo",` +
			`"updated_at":"2026-02-03T04:05:06Z","created_at":"2026-01-02T03:04:05Z","deleted":true}`,
	} {
		c, err := channel.Registry().Decode([]byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(c); err != nil || string(got) != stored {
			t.Errorf("it was stored as\n%s\nand is now\n%s\n%v", stored, got, err)
		}
	}
}
