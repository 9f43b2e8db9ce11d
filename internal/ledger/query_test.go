package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func TestAListingOfDeliveriesFilters(t *testing.T) {
	t.Parallel()
	db, _ := openScenario(t)
	cases := []struct {
		name string
		f    ledger.DeliveryFilter
		want string
	}{
		{"nothing asked: all, the last owed first", ledger.DeliveryFilter{},
			"e1/ep_c e8/ep_a e5/ep_a e4/ep_b e3/ep_b e2/ep_a e1/ep_b e1/ep_a"},
		{"by tenant", ledger.DeliveryFilter{Tenant: "other"}, "e1/ep_c"},
		{"by endpoint", ledger.DeliveryFilter{EndpointID: "ep_b"}, "e4/ep_b e3/ep_b e1/ep_b"},
		{"by event", ledger.DeliveryFilter{EventID: "e1", Tenant: "acme"}, "e1/ep_b e1/ep_a"},
		{"by state", ledger.DeliveryFilter{State: outcome.StatePending}, "e1/ep_c e4/ep_b e3/ep_b"},
		{"by reason", ledger.DeliveryFilter{Reason: "endpoint_deleted"}, "e5/ep_a"},
		{"by type", ledger.DeliveryFilter{EventType: "order.lost"}, ""},
		{"by time", ledger.DeliveryFilter{From: noon.Add(9 * time.Second), To: noon.Add(24 * time.Second)},
			"e3/ep_b e2/ep_a"},
		{"a quote in a filter is a quote", ledger.DeliveryFilter{Tenant: "acme' OR 1=1 --\\"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			page, next, err := db.Deliveries(context.Background(), c.f, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range page {
				got = append(got, d.EventID+"/"+d.EndpointID)
			}
			if strings.Join(got, " ") != c.want || next != "" {
				t.Errorf("got %s, next %q; want %s", got, next, c.want)
			}
		})
	}
}

func TestPagesOfDeliveriesAreDisjointAndComplete(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	s := &story{t: t}
	const n = 4500 // more than two chunks
	for i := range n {
		s.owed(fmt.Sprint("e", i), "ep_a", "")
		if i%100 == 0 {
			s.ended(record.DeliveryDeadLetter, fmt.Sprint("e", i), "ep_a", "", "attempts_exhausted")
		}
	}
	if err := db.Append(context.Background(), s.rows); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f     ledger.DeliveryFilter
		limit int
		want  int
	}{{ledger.DeliveryFilter{}, 700, n}, {ledger.DeliveryFilter{State: outcome.StateDeadLettered}, 7, n / 100}} {
		seen := map[string]bool{}
		for cursor, pages := "", 0; ; pages++ {
			page, next, err := db.Deliveries(context.Background(), c.f, cursor, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range page {
				if seen[d.EventID] {
					t.Fatalf("%s came twice", d.EventID)
				}
				seen[d.EventID] = true
			}
			if cursor = next; next == "" {
				break
			}
			if pages > n {
				t.Fatal("the pages do not end")
			}
		}
		if len(seen) != c.want {
			t.Errorf("%+v: %d deliveries over all pages, want %d", c.f, len(seen), c.want)
		}
	}
}

func TestADeliveryAnEventAndItsAttemptsAreFoundByTheirIDs(t *testing.T) {
	t.Parallel()
	db, _ := openScenario(t)
	ctx := context.Background()
	d, err := db.Delivery(ctx, "acme", "e2", "ep_a")
	if err != nil || d.State != outcome.StateDelivered || d.PayloadDigest != "digest-e2-2" ||
		!d.OwedAt.Equal(noon.Add(9*time.Second)) {
		t.Errorf("delivery: %+v, %v", d, err)
	}
	e, err := db.Event(ctx, "", "e2")
	if err != nil || e.State != "accepted" || e.EventSeq != 108 {
		t.Errorf("event: %+v, %v", e, err)
	}
	attempts, err := db.AttemptRecords(ctx, "e1", "ep_b")
	if err != nil || len(attempts) != 3 || attempts[1].Outcome != "unknown" || attempts[2].Attempt != 4 {
		t.Errorf("attempts: %+v, %v", attempts, err)
	}
	if _, err := db.Delivery(ctx, "acme", "e2", "ep_b"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a delivery that is not there: %v", err)
	}
	if _, err := db.Event(ctx, "other", "e2"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("an event of another tenant: %v", err)
	}
	if _, _, err := db.Deliveries(ctx, ledger.DeliveryFilter{}, "x", 1); err == nil ||
		!strings.Contains(err.Error(), "cursor") {
		t.Errorf("a cursor that is none: %v", err)
	}
}

func TestDeadLettersAreListedWithTheirResolution(t *testing.T) {
	t.Parallel()
	db, _ := openScenario(t)
	for _, c := range []struct {
		f    ledger.DeadLetterFilter
		want string
	}{
		{ledger.DeadLetterFilter{}, "e8 e3 e2"},
		{ledger.DeadLetterFilter{Resolution: "replayed"}, "e3"},
		{ledger.DeadLetterFilter{Reason: "permanently_rejected", Tenant: "acme"}, "e2"},
		{ledger.DeadLetterFilter{From: noon.Add(19 * time.Second), To: noon.Add(20 * time.Second)}, "e3"},
	} {
		page, next, err := db.DeadLetters(context.Background(), c.f, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range page {
			got = append(got, d.EventID)
		}
		if strings.Join(got, " ") != c.want || next != "" {
			t.Errorf("%+v: got %s, next %q; want %s", c.f, got, next, c.want)
		}
	}
}

func TestJSONNamesAreTheColumns(t *testing.T) {
	_, conn := openScenario(t)
	for view, row := range map[string]any{"deliveries": ledger.Delivery{}, "events": ledger.Event{},
		"dead_letters": ledger.DeadLetter{}} {
		typ := reflect.TypeOf(row)
		have := map[string]bool{}
		for _, name := range lines(t, conn, "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '"+view+"'") {
			have[name] = true
		}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if column := typ.Field(i).Tag.Get("ch"); column != name || !have[name] {
				t.Errorf("%s.%s: column %q, JSON %q, in the view: %v", view, typ.Field(i).Name, column, name, have[name])
			}
		}
		if _, err := json.Marshal(row); err != nil {
			t.Error(err)
		}
	}
}

func TestViewsReadOnlyWhatTheIndicesLeave(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	s := &story{t: t}
	for i := range 40_000 { // five granules
		switch {
		case i == 20_000:
			s.tell(record.EventUnmatched, "other", "", nil)
			s.ended(record.DeliveryDeadLetter, "dead", "ep_dead", "", "attempts_exhausted")
			s.tell(record.Escalation, "dead", "ep_dead", nil)
			s.tell(record.EndpointChanged, "", "ep_dead", nil)
			s.tell(record.ReplayRequested, "dead", "", func(r *record.Record) { r.ReplayID = "rpl_9" })
		case i%2 == 0:
			s.owed(fmt.Sprint("e", i/2), fmt.Sprint("ep_", i/8000), "")
		default:
			s.delivered(fmt.Sprint("e", i/2), fmt.Sprint("ep_", i/8000), "", 1)
		}
	}
	if err := db.Append(context.Background(), s.rows); err != nil {
		t.Fatal(err)
	}
	last := noon.Add(39_000 * time.Second).Format("'2006-01-02 15:04:05'")
	for _, c := range []struct{ query, index string }{
		{"SELECT * FROM attempts WHERE event_id = 'e19000'", "by_event"},
		{"SELECT * FROM deliveries WHERE event_id = 'e19000'", "by_event"},
		{"SELECT * FROM events WHERE event_id = 'other'", "by_event"},
		{"SELECT * FROM dead_letters WHERE event_id = 'dead'", "by_event"},
		{"SELECT * FROM escalations WHERE event_id = 'dead'", "by_event"},
		{"SELECT * FROM deliveries WHERE endpoint_id = 'ep_4'", "by_endpoint"},
		{"SELECT * FROM attempts WHERE endpoint_id = 'ep_4'", "by_endpoint"},
		{"SELECT * FROM endpoint_history WHERE endpoint_id = 'ep_dead'", "by_endpoint"},
		{"SELECT * FROM attempts WHERE at >= " + last, "by_time"},
		{"SELECT * FROM events", "by_kind"},
		{"SELECT * FROM dead_letters", "by_event"}, // of the events that have one
		{"SELECT * FROM escalations", "by_kind"},
		{"SELECT * FROM replays", "by_replay"},
	} {
		t.Run(c.query, func(t *testing.T) { usesIndex(t, explain(t, conn, c.query), c.index) })
	}
}

// explain gives the plan with its use of indices.
func explain(t *testing.T, conn driver.Conn, query string) []string {
	t.Helper()
	rows, err := conn.Query(context.Background(), "EXPLAIN indexes = 1 "+query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimSpace(s))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// usesIndex wants index in the plan, and less left after it than there is.
func usesIndex(t *testing.T, plan []string, index string) {
	t.Helper()
	for i, line := range plan {
		if line != "Name: "+index {
			continue
		}
		for _, after := range plan[i:] {
			var left, of int
			if n, _ := fmt.Sscanf(after, "Granules: %d/%d", &left, &of); n == 2 {
				if left < 5 {
					return
				}
				break
			}
		}
	}
	t.Errorf("%s leaves out nothing:\n%s", index, strings.Join(plan, "\n"))
}
