package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

func at(second int) time.Time {
	return time.Date(2026, 8, 19, 14, 32, second, 421_000_000, time.UTC)
}

func someDelivery() control.DeliveryDetails {
	return control.DeliveryDetails{
		Delivery: control.Delivery{EventID: "evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K", EndpointID: "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K",
			Tenant: "acme", EventType: "lab_result.critical", State: outcome.StateDeadLettered, Attempts: 4,
			OwedAt: at(7), DeliverBy: at(59), DeadLetteredAt: at(50), Reason: "attempts_exhausted",
			PayloadDigest: strings.Repeat("ab", 32)},
		History: []record.Record{
			{Attempt: 1, StartedAt: at(8), DurationUS: 12_345, Status: 503, Outcome: "status_retryable", Decision: "retry",
				NextAttemptAt: at(13), Detail: "the schedule allows another attempt",
				ResponseExcerpt: `{"error":"the ward's system is not well"}`},
			{Attempt: 3, StartedAt: at(20), DurationUS: 10_000_000, Outcome: "connection_refused", Decision: "retry",
				NextAttemptAt: at(20).Add(5 * time.Hour), Detail: "the schedule allows another attempt",
				Error: "the egress proxy refused the connection", Proxy: "http://192.0.2.1:3128"},
			{Attempt: 4, ReplayID: "rpl_01JQ8Z6T5V3N9W2X4Y7R8S1M6K", StartedAt: at(40), DurationUS: 999, Status: 500,
				Outcome:  "status_retryable",
				Decision: "dead_letter", Reason: "attempts_exhausted",
				Detail: "evil \x1b[31m receiver\u202e text" + strings.Repeat(" long", 40)},
		},
	}
}

func someIncident() control.Escalation {
	return control.Escalation{ID: "inc_1", Tenant: "acme", State: escalation.Acknowledged, Policy: "all", OpenedAt: at(1),
		DeliverBy: at(59), Count: 12,
		Reasons: map[string]int{"attempts_exhausted": 10, "endpoint_gone": 2}, Endpoints: map[string]int{"ep_1": 12},
		First: escalation.Problem{EventID: "evt_1", EndpointID: "ep_1", Reason: "endpoint_gone"}, Told: true, ToldAt: at(2),
		Step: 2, Round: 1,
		Channels: []control.EscalationReach{{Channel: "chat", Step: 1, Told: true, ToldAt: at(2), Outcome: "delivered",
			Tries: 1},
			{Channel: "pager", Step: 2, Outcome: "busy", Tries: 3, TryAt: at(9), Error: "answered 503: \x1b[31mtry later"}},
		AckedBy: "ann@example.com", AckedAt: at(20), AckNote: "calling the lab"}
}

func someDeadLetter() control.DeadLetter {
	return control.DeadLetter{Tenant: "acme", EventID: "evt_1", EndpointID: "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K",
		EventType: "lab_result.critical",
		Reason:    "attempts_exhausted", Detail: "every attempt of the schedule was made", Attempts: 8, DeadLetteredAt: at(3),
		DeliverBy: at(50), EscalatedAt: at(4),
		EscalatedInTime: true, IncidentID: "inc_1", Owner: "ann@example.com", OwnedAt: at(9), Resolution: "open",
		OpenFor: control.Duration(time.Hour)}
}

func TestTables(t *testing.T) {
	someEndpoint := control.Endpoint{ID: "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K", Tenant: "acme", URL: "https://例え.example/フック",
		Types:       []string{"order.*", "refund.>"},
		Description: "受信側 — Müller", State: registry.Enabled, Scheme: "v1",
		Keys:    []control.Key{{ID: "key_1"}, {ID: "key_0", ExpiresAt: at(1)}},
		Timeout: control.Duration(10 * time.Second), MaxInFlight: 32, Revision: 3, Change: "updated",
		UpdatedBy: "jo@example.com", UpdatedAt: at(2), Reason: "ticket 4711"}
	wide := someEndpoint
	wide.ID, wide.Tenant, wide.State, wide.URL = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6L", "顧客", registry.Disabled,
		"https://example.com/hooks"
	tests := map[string]func(stdio) error{
		"endpoints": func(s stdio) error { return printEndpoints(s, "table", []control.Endpoint{someEndpoint, wide}) },
		"endpoint":  func(s stdio) error { return printEndpoint(s, "table", someEndpoint) },
		"secret": func(s stdio) error {
			return printSecret(s, "table", control.WithSecret{Endpoint: someEndpoint, Secret: "whsec_example", KeyID: "key_1"})
		},
		"escalations": func(s stdio) error {
			unheard := someIncident()
			unheard.ID, unheard.ToldAt, unheard.Told, unheard.AckedBy, unheard.State = "inc_2", time.Time{}, false, "",
				escalation.Open
			return printEscalations(s, "table", []control.Escalation{someIncident(), unheard})
		},
		"escalation_alarm": func(s stdio) error {
			alarm := someIncident()
			alarm.Tenant, alarm.First = "waybill", escalation.Problem{Kind: record.OperatorAction, Reason: "ledger_sink_behind",
				Why: "ClickHouse lacks records"}
			alarm.Reasons, alarm.Endpoints = map[string]int{"ledger_sink_behind": 12}, nil
			return printEscalation(s, "table", alarm)
		},
		"escalation": func(s stdio) error { return printEscalation(s, "table", someIncident()) },
		"deadletters": func(s stdio) error {
			late := someDeadLetter()
			late.EscalatedAt, late.EscalatedInTime, late.Owner, late.LateBy = time.Time{}, false, "",
				control.Duration(90*time.Second)
			soon := late
			soon.OpenFor, soon.LateBy = control.Duration(20*time.Second), 0
			return printDeadLetters(s, "table", control.DeadLetterPage{DeadLetters: []control.DeadLetter{someDeadLetter(), late,
				soon}})
		},
		"deadletter": func(s stdio) error { return printDeadLetter(s, "table", someDeadLetter()) },
		"policies": func(s stdio) error {
			return printPolicies(s, "table", []control.EscalationPolicy{{Name: "all", Priority: 100,
				Steps: []control.EscalationStep{
					{Channels: []string{"chat", "pager"}}, {After: control.Duration(2 * time.Minute), Channels: []string{"ann"}}},
				MaxDuration: control.Duration(24 * time.Hour), Window: control.Duration(30 * time.Second)}})
		},
		"channel": func(s stdio) error {
			return printChannel(s, "table", control.Channel{Channel: channel.Channel{Name: "mail", Kind: channel.Email,
				From: "waybill@example.com", To: []string{"a@example.com", "b@example.com"},
				Username: "waybill", Meta: revision.Meta{Revision: 2, Change: "updated", UpdatedBy: "jo@example.com",
					UpdatedAt: at(2), Reason: "moved"}}, Address: "smtp://smtp.example.com:587", HasSecret: true})
		},
		"deliveries": func(s stdio) error {
			return printDeliveries(s, "table", control.DeliveryPage{Deliveries: []control.Delivery{someDelivery().Delivery}})
		},
		"delivery": func(s stdio) error { return printDelivery(s.out, 0, someDelivery(), at(59)) },
		"delivery_put_off": func(s stdio) error {
			d := someDelivery()
			d.State, d.DeadLetteredAt, d.Reason, d.NextAttemptAt, d.History = outcome.StatePending, time.Time{}, "", at(13),
				d.History[:1]
			return printDelivery(s.out, 0, d, at(59))
		},
		"event": func(s stdio) error {
			return printEvent(s, "table", control.EventDetails{EventRecord: control.EventRecord{ID: "e1", Tenant: "acme",
				Type:  "order.paid",
				State: "accepted", Timestamp: at(1), StoredAt: at(2), Seq: 7, DataDigest: "ab", DataBytes: 2, Endpoints: 3,
				SubjectType: "order", SubjectID: "o 17"}})
		},
		"replay": func(s stdio) error {
			return printReplay(s, "table", control.Replay{ID: "rpl_1", EventID: "e1", Targets: []string{"ep_1"},
				Skipped: []control.Skipped{{EndpointID: "ep_2", Reason: "still pending"}}})
		},
		"changes": func(s stdio) error {
			return printChanges(s, "table", []streams.Change{{Name: "stream EVENTS", Action: "drifted",
				Differences: []string{"max_age: file 1, server 2"}}, {Name: "stream RETRY", Action: "unchanged"}})
		},
		"nothing": func(s stdio) error { return printEndpoints(s, "table", nil) },
	}
	for name, print := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := print(stdio{out: &out}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if w := runewidth.StringWidth(strings.TrimRight(line, "\n")); w > 100 && name == "delivery" {
					t.Errorf("%d columns: %q", w, line)
				}
				if strings.ContainsAny(line, "\x1b\u202e") || strings.HasSuffix(line, " \n") {
					t.Errorf("a control character, or spaces at the end: %q", line)
				}
			}
			compare(t, filepath.Join("testdata", name+".golden"), out.Bytes())
		})
	}
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestColumnsStayStraightWithWideCharacters(t *testing.T) {
	tab := table{header: []string{"NAME", "X"}}
	for _, name := range []string{"a", "顧客", "👩‍⚕️", "é", "ｆｕｌｌ"} {
		tab.add(name, "|")
	}
	var out bytes.Buffer
	if err := tab.write(&out, ""); err != nil {
		t.Fatal(err)
	}
	column := -1
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if i == 0 {
			continue
		}
		before, _, ok := strings.Cut(line, "|")
		if w := width().StringWidth(before); !ok || column >= 0 && w != column {
			t.Errorf("column 2 at %d, before at %d: %q", w, column, line)
		} else {
			column = w
		}
	}
}

func TestJSONIsValidAndAListIsNeverNull(t *testing.T) {
	tests := map[string]struct {
		print func(stdio) error
		want  string
	}{
		"endpoints":   {func(s stdio) error { return printEndpoints(s, "json", nil) }, `{"endpoints":[]}`},
		"event types": {func(s stdio) error { return printEventTypes(s, "json", nil) }, `{"event_types":[]}`},
		"channels":    {func(s stdio) error { return printChannels(s, "json", nil) }, `{"channels":[]}`},
		"deliveries": {func(s stdio) error {
			return printDeliveries(s, "json", control.DeliveryPage{Deliveries: []control.Delivery{}})
		}, `{"deliveries":[]}`},
		"changes": {func(s stdio) error { return printChanges(s, "json", nil) }, `[]`},
		"states":  {func(s stdio) error { return printStates(s, "json", []streamState{}) }, `[]`},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			var out, compact bytes.Buffer
			if err := c.print(stdio{out: &out}); err != nil {
				t.Fatal(err)
			}
			if err := json.Compact(&compact, out.Bytes()); err != nil || compact.String() != c.want {
				t.Errorf("%q, want %s: %v", out.String(), c.want, err)
			}
		})
	}
}

func TestDataBytesArePassedOnUntouched(t *testing.T) {
	for _, data := range []string{`{"a": 1.00, "b":1e400,"c":"\u00e9<>&"}`, `123456789012345678901234567890`, `"a"`,
		`null`, "[\t1 ,\r\n 2]"} {
		f := publishFlags{eventType: "order.paid", data: "-", id: "e1"}
		got, err := f.event(stdio{in: strings.NewReader(data + "\n")}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"id":"e1","type":"order.paid","data":` + data + `}`; string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
