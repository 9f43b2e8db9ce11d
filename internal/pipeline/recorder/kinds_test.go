package recorder

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/streams"
)

// A revision becomes the same records, byte for byte, in every version.
func TestReadMakesTheRecordsOfEachKind(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	for _, c := range []struct {
		stream, stored string
		want           []string // subject and record
	}{
		{streams.EndpointsStream, `{"id":"ep_01JABCDEFGHJKMNPQRSTVWXYZ0","tenant":"acme",` +
			`"url":"https://u:p@example.com/hooks?k=1",` +
			`"types":["lab.*","order.created"],"state":"disabled","state_reason":"no attempt succeeded",` +
			`"scheme":"v1",` +
			`"secrets":[{"key_id":"key_1","sealed":"sealed"}],"timeout":10000000000,"max_in_flight":32,` +
			`"disable_after":432000000000000,` +
			`"revision":7,"change":"disabled","reason":"endpoint_failing","updated_by":"waybill",` +
			`"updated_at":"2026-02-03T04:05:06Z",` +
			`"created_at":"2026-01-02T03:04:05Z","max_per_second":2.5,"ordering":"fifo"}`,
			[]string{`ledger.endpoint-changed.acme {"v":1,` +
				`"id":"endpoint.changed/ep_01JABCDEFGHJKMNPQRSTVWXYZ0/7","kind":"endpoint.changed",` +
				`"at":"2026-02-03T04:05:06.000000007Z","tenant":"acme",` +
				`"endpoint_id":"ep_01JABCDEFGHJKMNPQRSTVWXYZ0",` +
				`"reason":"endpoint_failing","detail":"no attempt succeeded","url":"https://example.com/hooks",` +
				`"signature_scheme":"v1",` +
				`"key_ids":["key_1"],"actor":"waybill","action":"disabled","endpoint_revision":7,` +
				`"event_types":["lab.*","order.created"],` +
				`"settings":{"disable_after":"120h0m0s","max_in_flight":"32","max_per_second":"2.5",` +
				`"ordering":"fifo","timeout":"10s"}}`,
				`ledger.operator-action.acme {"v":1,` +
					`"id":"operator.action/endpoint.disabled/ep_01JABCDEFGHJKMNPQRSTVWXYZ0/7",` +
					`"kind":"operator.action","at":"2026-02-03T04:05:06.000000007Z","tenant":"acme",` +
					`"endpoint_id":"ep_01JABCDEFGHJKMNPQRSTVWXYZ0","reason":"endpoint_failing",` +
					`"detail":"no attempt succeeded",` +
					`"url":"https://example.com/hooks","actor":"waybill","action":"endpoint.disabled",` +
					`"endpoint_revision":7}`}},
		{streams.EventTypesStream, `{"tenant":"acme","pattern":"lab.*","deliver_within":60000000000,` +
			`"policy":{"name":"mine",` +
			`"max_attempts":1},"revision":3,"change":"updated","reason":"contract","updated_by":"ann",` +
			`"updated_at":"2026-02-03T04:05:06Z","created_at":"2026-01-02T03:04:05Z"}`,
			[]string{`ledger.event_type-changed.acme {"v":1,"id":"event_type.changed/acme/lab.*/3",` +
				`"kind":"event_type.changed",` +
				`"at":"2026-02-03T04:05:06.000000007Z","tenant":"acme","reason":"contract",` +
				`"detail":"deliver_within 1m0s, policy {\"name\":\"mine\",\"max_attempts\":1}","actor":"ann",` +
				`"action":"updated",` +
				`"event_types":["lab.*"]}`}},
		{streams.ChannelsStream, `{"name":"oncall","kind":"email","secret":"sealed","from":"a@example.com",` +
			`"to":["b@example.com"],` +
			`"host":"smtp.example.com","port":587,"tls":"starttls","username":"waybill","revision":2,` +
			`"change":"updated",` +
			`"reason":"moved","updated_by":"jo","updated_at":"2026-02-03T04:05:06.000000007Z",` +
			`"created_at":"2026-01-02T03:04:05Z"}`,
			[]string{`ledger.operator-action.all {"v":1,"id":"operator.action/channels/oncall/2",` +
				`"kind":"operator.action",` +
				`"at":"2026-02-03T04:05:06.000000007Z","tenant":"all","reason":"moved",` +
				`"url":"smtp://smtp.example.com:587","actor":"jo",` +
				`"action":"channel.updated","channel":"oncall","channel_kind":"email","revision":2}`}},
		{streams.EscalationPoliciesStream, `{"name":"lab","priority":10,"tenants":["acme"],"types":["lab.*"],` +
			`"reasons":["deadline"],` +
			`"steps":[{"after":0,"channels":["oncall"]}],"repeat":3600000000000,"max_duration":86400000000000,` +
			`"window":60000000000,` +
			`"revision":3,"change":"deleted","updated_by":"jo","updated_at":"2026-02-03T04:05:06Z",` +
			`"created_at":"2026-01-02T03:04:05Z","deleted":true}`,
			[]string{`ledger.operator-action.acme {"v":1,"id":"operator.action/escalation_policies/lab/3",` +
				`"kind":"operator.action",` +
				`"at":"2026-02-03T04:05:06Z","tenant":"acme",` +
				`"detail":"{\"max_duration\":\"24h0m0s\",\"priority\":10,` +
				`\"reasons\":[\"deadline\"],\"repeat\":\"1h0m0s\",\"steps\":[{\"after\":0,\"channels\":[\"oncall\"]}],` +
				`\"tenants\":[\"acme\"],\"window\":\"1m0s\"}","actor":"jo","action":"escalation_policy.deleted",` +
				`"event_types":["lab.*"],"escalation_policy":"lab","revision":3}`}},
	} {
		change, err := kinds[c.stream]([]byte(c.stored), at)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range change.records {
			m, err := r.Message()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Subject+" "+string(m.Data))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.stream, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if _, err := kinds[c.stream]([]byte(`{"stream":"EVENTS","seq":7}`), at); err == nil {
			t.Errorf("%s: what is no revision is one", c.stream)
		}
	}
}
