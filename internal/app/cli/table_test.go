package cli

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/ledger/custody"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// lists are what a person sees on an ordinary day, as long as it gets: two
// endpoints, ids of full length, texts that go on.
func lists() map[string]func(stdio, format) error {
	events, endpoints := []string{ids.New(ids.Event, at(1)), ids.New(ids.Event, at(1)), ids.New(ids.Event, at(1))},
		[]string{ids.New(ids.Endpoint, at(1)), ids.New(ids.Endpoint, at(1))}
	long := strings.TrimSpace(strings.Repeat("somewhat long ", 12))
	var deliveries []control.Delivery
	var letters []control.DeadLetter
	var incidents []control.Escalation
	var made []control.Endpoint
	var tries []audit.Attempt
	var repeats []audit.Repetition
	var failures []audit.Failure
	var signed []audit.Signed
	var balances []audit.Balance
	var mismatches []audit.Mismatch
	for i, event := range events {
		endpoint := endpoints[i%2]
		when := at(i)
		deliveries = append(deliveries, control.Delivery{EventID: event, EndpointID: endpoint,
			EventType: "lab_result.critical", State: outcome.StateDeadLettered,
			Attempts: i, OwedAt: when, Reason: "permanently_rejected"})
		d := someDeadLetter()
		d.EventID, d.EndpointID, d.Owner = event, endpoint, fmt.Sprint("ann", i, "@example.com")
		letters = append(letters, d)
		e := someIncident()
		e.ID, e.Count, e.Scope, e.First.EndpointID = escalation.IncidentID(event), i, escalation.OneEndpoint, endpoint
		incidents = append(incidents, e)
		made = append(made, control.Endpoint{ID: endpoint, Tenant: fmt.Sprint("tenant-", i), State: registry.Enabled,
			Types: []string{"order.paid", "refund.>"},
			URL:   "https://example.com/a/rather/long/path/to/hooks/" + event})
		tries = append(tries, audit.Attempt{EndpointID: endpoint, Number: int64(i + 1), StartedAt: &when,
			Outcome: "connection_refused", Decision: "dead_letter",
			PayloadDigest: strings.Repeat("ab", 32), ResponseExcerpt: long})
		repeats = append(repeats, audit.Repetition{EventID: event, EndpointID: endpoint, FirstAt: when, Requests: 12,
			Repeats: []string{long}})
		failures = append(failures, audit.Failure{EventID: event, EndpointID: endpoint, Reason: "endpoint_unreachable",
			FailedAt: when, Resolution: "open", Detail: long})
		signed = append(signed, audit.Signed{EventID: event, EndpointID: endpoint, Number: 1, SignedAt: &when,
			SignatureScheme: "v1",
			KeyIDs:          []string{"key_1", "key_2"}, PayloadDigest: strings.Repeat("ab", 32),
			DataDigest: strings.Repeat("cd", 32)})
		balances = append(balances, audit.Balance{Day: fmt.Sprint("2026-08-1", i), Tenant: "acme", EndpointID: endpoint,
			Accepted: 100_000, Delivered: 99_000})
		mismatches = append(mismatches, audit.Mismatch{What: "accepted_not_owed", EventID: event, EndpointID: endpoint,
			At: when, Detail: long})
	}
	holds := []custody.Hold{{ID: ids.New("hold_", at(1)), Tenant: "acme", Reason: long, Actor: "ann@example.com",
		AddedAt: at(1)},
		{ID: ids.New("hold_", at(1)), Event: events[0], Reason: "case 7"}}
	grid := func(g audit.Grid) func(stdio, format) error {
		return func(s stdio, out format) error { return printGrid(s.out, s.room(out), g) }
	}
	return map[string]func(stdio, format) error{
		"delivery list": func(s stdio, out format) error {
			return printDeliveries(s, out, control.DeliveryPage{Deliveries: deliveries})
		},
		"deadletter list": func(s stdio, out format) error {
			return printDeadLetters(s, out, control.DeadLetterPage{DeadLetters: letters})
		},
		"escalation list":  func(s stdio, out format) error { return printEscalations(s, out, incidents) },
		"endpoint list":    func(s stdio, out format) error { return printEndpoints(s, out, made) },
		"audit attempts":   grid(audit.AttemptGrid(tries)),
		"audit duplicates": grid(audit.RepetitionGrid(repeats)),
		"audit failures":   grid(audit.FailureGrid(failures, at(50))),
		"audit failures totals": grid(audit.FailureTotalGrid([]audit.FailureTotals{{What: "dead_letter",
			Reason: "endpoint_unreachable", Count: 10}, {What: "rejected", Reason: "invalid_event"}})),
		"audit integrity": grid(audit.SignedGrid(signed)),
		"audit controls": grid(audit.DayGrid([]audit.Day{{Day: "2026-08-19", Attempts: 1_000_000},
			{Day: "2026-08-20", Delivered: 3}})),
		"audit completeness": grid(audit.BalanceGrid(balances)),
		"audit changes": grid(audit.ChangeGrid([]audit.Change{{At: at(1), Actor: "ann@example.com", Kind: "endpoint.changed",
			Action:     "endpoint_policy.created",
			EndpointID: endpoints[0], Reason: long},
			{At: at(2), Actor: "bob@example.com", Action: "x", EndpointID: endpoints[1]}})),
		"mismatches": grid(audit.MismatchGrid(mismatches)),
		"event-type list": func(s stdio, out format) error {
			return printEventTypes(s, out, []control.EventType{{Pattern: "lab_result.>", Tenant: "acme",
				DeliverWithin: control.Duration(time.Minute)}})
		},
		"hold list": func(s stdio, out format) error {
			return printHolds(s, out, holds)
		},
		"streams show": func(s stdio, out format) error {
			return printStates(s, out, []streamState{{Name: "DELIVERIES", Messages: 1 << 40, Bytes: 1 << 44, LastSeq: 1 << 40,
				LastTime: at(1)}})
		},
		"streams check": func(s stdio, out format) error {
			return printChanges(s, out, []streams.Change{{Name: "DELIVERIES", Differences: []string{long}}})
		},
		"doctor": func(s stdio, out format) error {
			return printChecks(s, out, []health.Check{{Name: "ledger sink", State: health.Wrong, Detail: long,
				Code: "sink_behind", Next: long}})
		},
		"delivery show": func(s stdio, out format) error { return printDelivery(s.out, s.room(out), someDelivery(), at(59)) },
	}
}

func TestEveryListFitsATerminalOf80ColumnsAndCutsNoID(t *testing.T) {
	for name, list := range lists() {
		t.Run(name, func(t *testing.T) {
			printed := func(columns string, out format) string {
				t.Setenv("COLUMNS", columns)
				var b bytes.Buffer
				if err := list(stdio{out: &b}, out); err != nil {
					t.Fatal(err)
				}
				return b.String()
			}
			whole, narrow := printed("", "table"), printed("80", "table")
			for line := range strings.Lines(narrow) {
				line = strings.TrimRight(line, "\n")
				if strings.HasPrefix(line, "digest ") { // a value by itself
					continue
				}
				if n := width().StringWidth(line); n > 80 {
					t.Errorf("%d columns: %q", n, line)
				}
			}
			for _, word := range strings.Fields(narrow) {
				for _, id := range []string{"evt_", "ep_", "inc_", "hold_"} {
					if rest, ok := strings.CutPrefix(word, id); ok && strings.Contains(rest, "…") {
						t.Errorf("the id %s cannot be pasted", word)
					}
				}
			}
			if printed("80", "wide") != whole || printed("1000", "table") != whole {
				t.Errorf("-o wide, or a terminal that is wide enough, leaves something out of:\n%s", whole)
			}
			if header, _, _ := strings.Cut(whole, "\n"); name != "delivery show" && strings.Contains(narrow, "not shown: ") {
				_, hidden, _ := strings.Cut(narrow, "not shown: ")
				for _, column := range strings.Split(strings.TrimSuffix(strings.TrimSpace(hidden), " (all columns: -o wide)"),
					", ") {
					if !strings.Contains(header, column) {
						t.Errorf("%q is said to be hidden, and is no column", column)
					}
				}
			}
		})
	}
}

func TestWhatIsNoTerminalGetsEveryColumn(t *testing.T) {
	t.Setenv("COLUMNS", "")
	if n := (stdio{out: &bytes.Buffer{}}).room("table"); n != 0 {
		t.Errorf("a buffer has %d columns", n)
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := (stdio{out: f}).room("table"); n != 0 {
		t.Errorf("a file has %d columns", n)
	}
}

func TestWhatIsTheSameInAllRowsIsSaidOnceAndWhatIsHiddenIsNamed(t *testing.T) {
	tab := table{header: []string{"ID", "TENANT", "WHY", "AT"}, room: 39, wide: []string{"AT"}, clip: []string{"WHY"}}
	tab.add("evt_1", "acme", "a text that is longer than there is room for", "2026-08-19 14:32:07")
	tab.add("evt_2", "acme", "another", "2026-08-19 14:32:08")
	tab.note("a note that is longer than the terminal is wide goes on in the next line")
	var b bytes.Buffer
	if err := tab.write(&b, ""); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"in all rows: TENANT acme",
		"ID     WHY",
		"evt_1  a text that is longer than ther…",
		"evt_2  another",
		"     a note that is longer than the",
		"     terminal is wide goes on in the",
		"     next line",
		"",
		"not shown: AT (all columns: -o wide)",
	}
	if got := strings.Split(strings.TrimRight(b.String(), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("got:\n%s", b.String())
	}
}

func FuzzATableNeverLosesAnID(f *testing.F) {
	f.Add("evt_1", "a text", 40)
	f.Add("", "text of 顧客 and\x1b[31m", 60)
	f.Fuzz(func(t *testing.T, id, text string, room int) {
		tab := table{header: []string{"ID", "TEXT", "MORE"}, room: max(0, room%200), wide: []string{"MORE"},
			clip: []string{"TEXT"}, flow: room%2 == 0}
		tab.add(id, text, text)
		tab.add(id, "x", text)
		tab.note(text)
		var b bytes.Buffer
		if err := tab.write(&b, ""); err != nil {
			t.Fatal(err)
		}
		if strings.Count(b.String(), printable(id)) < 2 {
			t.Errorf("the id %q is not there twice:\n%s", id, b.String())
		}
	})
}
