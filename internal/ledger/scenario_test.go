package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// noon is the scenario's first second; record n is stated n seconds later.
var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

type story struct {
	t    testing.TB
	rows []ledger.Row
}

// tell appends a record of kind: event, endpoint, then what change sets.
func (s *story) tell(kind record.Kind, event, endpoint string, change func(*record.Record)) {
	s.t.Helper()
	n := len(s.rows)
	r := record.Record{ID: fmt.Sprintf("rec-%d", n), Kind: kind, At: noon.Add(time.Duration(n) * time.Second),
		Tenant: "acme", EventID: event, EndpointID: endpoint}
	if change != nil {
		change(&r)
	}
	s.rows = append(s.rows, row(s.t, uint64(n), r))
}

func (s *story) accepted(event string, endpoints int) {
	s.tell(record.EventAccepted, event, "", func(r *record.Record) {
		r.EventType, r.Endpoints, r.EventSeq = "order.paid", endpoints, uint64(len(s.rows)+100)
	})
}

func (s *story) owed(event, endpoint, replay string) {
	s.tell(record.DeliveryOwed, event, endpoint, func(r *record.Record) {
		r.EventType, r.ReplayID, r.DeliverBy = "order.paid", replay, noon.Add(time.Minute)
	})
}

func (s *story) attempt(event, endpoint, replay string, n, status int, outcome, class, decision string) {
	s.tell(record.Attempt, event, endpoint, func(r *record.Record) {
		r.Attempt, r.ReplayID, r.Status, r.Outcome, r.Class, r.Decision = n, replay, status, outcome, class, decision
		r.StartedAt = r.At.Add(-time.Second / 2)
		if outcome != "unknown" {
			r.URL, r.PayloadDigest = "https://"+endpoint+"/in", fmt.Sprintf("digest-%s-%d", event, n)
		}
		if decision == "retry" {
			r.NextAttemptAt = r.At.Add(time.Hour)
		}
	})
}

func (s *story) delivered(event, endpoint, replay string, n int) {
	s.attempt(event, endpoint, replay, n, 200, "delivered", "delivered", "delivered")
}

func (s *story) ended(kind record.Kind, event, endpoint, replay, reason string) {
	s.tell(kind, event, endpoint, func(r *record.Record) {
		r.Reason, r.ReplayID, r.Attempts, r.DeliverBy = reason, replay, 1, noon.Add(time.Minute)
	})
}

// scenario is one of everything. Its comments say which event shows what.
func scenario(t testing.TB) []ledger.Row {
	s := &story{t: t}
	const a, b = "ep_a", "ep_b"
	s.tell(record.EndpointChanged, "", a, func(r *record.Record) {
		r.Action, r.Actor, r.EndpointRevision, r.URL, r.EventTypes = "create", "alice", 1, "https://ep_a/in",
			[]string{"order.*"}
	})
	// e1: delivered at once by ep_a; by ep_b after a retry, an unknown attempt and a number that is missing.
	s.accepted("e1", 2) // 1
	s.owed("e1", a, "")
	s.owed("e1", b, "")
	s.delivered("e1", a, "", 1) // 4
	s.attempt("e1", b, "", 1, 503, "status_retryable", "retryable", "retry")
	s.attempt("e1", b, "", 2, 0, "unknown", "retryable", "retry")
	s.delivered("e1", b, "", 4) // 7
	// e2: dead letter, escalated and acknowledged, replayed and delivered.
	s.accepted("e2", 1) // 8
	s.owed("e2", a, "")
	s.attempt("e2", a, "", 1, 422, "status_terminal", "terminal", "dead_letter") // 10
	s.ended(record.DeliveryDeadLetter, "e2", a, "", "permanently_rejected")      // 11
	s.tell(record.Escalation, "e2", a, func(r *record.Record) {                  // 12
		r.Action, r.Outcome, r.DeliverBy = "pager", "delivered", noon.Add(time.Minute)
	})
	s.tell(record.EscalationAcked, "e2", a, func(r *record.Record) { r.Actor = "bob" }) // 13
	s.tell(record.ReplayRequested, "e2", "", func(r *record.Record) {
		r.ReplayID, r.Actor, r.Reason = "rpl_1", "alice",
			"receiver mended"
	})
	s.owed("e2", a, "rpl_1") // 15
	s.delivered("e2", a, "rpl_1", 2)
	// e3: dead letter that nobody was told of; its replay is under way.
	s.accepted("e3", 1) // 17
	s.owed("e3", b, "")
	s.ended(record.DeliveryDeadLetter, "e3", b, "", "deadline_exceeded") // 19
	s.tell(record.ReplayRequested, "e3", "", func(r *record.Record) {
		r.ReplayID, r.Actor, r.Reason = "rpl_2", "alice",
			"try again"
	})
	s.owed("e3", b, "rpl_2") // 21
	s.attempt("e3", b, "rpl_2", 1, 0, "timeout", "retryable", "retry")
	// e4: pending.
	s.accepted("e4", 1) // 23
	s.owed("e4", b, "")
	s.attempt("e4", b, "", 1, 0, "connection_refused", "retryable", "retry") // 25
	// e5: cancelled. e6: unmatched. e7: rejected.
	s.accepted("e5", 1)
	s.owed("e5", a, "")
	s.ended(record.DeliveryCancelled, "e5", a, "", "endpoint_deleted") // 28
	s.tell(record.EventUnmatched, "e6", "", func(r *record.Record) { r.EventType = "order.lost" })
	// 30
	s.tell(record.EventRejected, "e7", "", func(r *record.Record) {
		r.Reason, r.NATSSubject = "invalid_event",
			"events.acme.x"
	})
	// e8: delivered, and a replay of it dead-lettered: delivered once is delivered for ever.
	s.accepted("e8", 1)
	s.owed("e8", a, "")
	s.delivered("e8", a, "", 1) // 33
	s.owed("e8", a, "rpl_3")
	s.ended(record.DeliveryDeadLetter, "e8", a, "rpl_3", "endpoint_unreachable") // 35
	// A replay that was not expanded yet.
	s.tell(record.ReplayRequested, "e4", "", func(r *record.Record) {
		r.ReplayID, r.Actor, r.Reason = "rpl_4", "carol",
			"drill"
	})
	// The same event id of another tenant.
	s.owed("e1", "ep_c", "") // 37
	s.rows[37].Record.Tenant = "other"
	s.rows[37] = row(t, 37, s.rows[37].Record)
	s.tell(record.EndpointChanged, "", a, func(r *record.Record) {
		r.Action, r.Actor, r.EndpointRevision = "disable",
			"alice", 2
	})
	return s.rows
}

func openScenario(t testing.TB) (*ledger.DB, driver.Conn) {
	t.Helper()
	db, conn, _ := open(t)
	if err := db.Append(context.Background(), scenario(t)); err != nil {
		t.Fatal(err)
	}
	return db, conn
}

func TestTheViewsSayWhatHappened(t *testing.T) {
	t.Parallel()
	_, conn := openScenario(t)
	at := func(n int) string {
		return noon.Add(time.Duration(n) * time.Second).Format("'2006-01-02 15:04:05.000000000'")
	}
	cases := []struct {
		name, query string
		want        []string
	}{
		{"each event once, with what became of it", "SELECT (event_id, state, endpoints, reason) FROM events ORDER BY idx",
			[]string{"('e1','accepted',2,'')", "('e2','accepted',1,'')", "('e3','accepted',1,'')", "('e4','accepted',1,'')",
				"('e5','accepted',1,'')",
				"('e6','unmatched',0,'')", "('e7','rejected',0,'invalid_event')", "('e8','accepted',1,'')"}},
		{"each delivery once, with its state", "SELECT (tenant, event_id, endpoint_id, state, attempt_count, " +
			"attempts_missing, reason, replay_count) FROM deliveries ORDER BY event_id, endpoint_id",
			[]string{"('acme','e1','ep_a','delivered',1,0,'',0)", "('acme','e1','ep_b','delivered',3,1,'',0)",
				"('other','e1','ep_c','pending',0,0,'',0)",
				"('acme','e2','ep_a','delivered',2,0,'',1)", "('acme','e3','ep_b','pending',1,0,'',1)",
				"('acme','e4','ep_b','pending',1,0,'',0)",
				"('acme','e5','ep_a','cancelled',0,0,'endpoint_deleted',0)", "('acme','e8','ep_a','delivered',1,0,'',1)"}},
		{"a delivery's times", "SELECT (event_id, owed_at, succeeded_at, dead_lettered_at, cancelled_at) FROM deliveries " +
			"WHERE event_id IN ('e2', 'e5') ORDER BY event_id",
			[]string{"('e2'," + at(9) + "," + at(16) + "," + at(11) + ",NULL)",
				"('e5'," + at(27) + ",NULL,NULL," + at(28) + ")"}},
		{"a pending delivery's next attempt, and none of one that ended", "SELECT (event_id, endpoint_id, " +
			"next_attempt_at) FROM deliveries WHERE event_id IN ('e1', 'e4') AND tenant = 'acme' ORDER BY event_id, endpoint_id",
			[]string{"('e1','ep_a',NULL)", "('e1','ep_b',NULL)", "('e4','ep_b','2026-11-02 13:00:25.000000000')"}},
		{"the last signed bytes, status and outcome", "SELECT (event_type, payload_digest, url, last_status, " +
			"last_outcome, deliver_by) FROM deliveries WHERE event_id = 'e2'",
			[]string{"('order.paid','digest-e2-2','https://ep_a/in',200,'delivered'," + at(60) + ")"}},
		{"each request, the unknown one included", "SELECT (endpoint_id, attempt, outcome, started_at) FROM attempts " +
			"WHERE event_id = 'e1' ORDER BY idx",
			[]string{"('ep_a',1,'delivered','2026-11-02 12:00:03.500000000')",
				"('ep_b',1,'status_retryable','2026-11-02 12:00:04.500000000')",
				"('ep_b',2,'unknown','2026-11-02 12:00:05.500000000')", "('ep_b',4,'delivered','2026-11-02 12:00:06.500000000')"}},
		{"each dead letter, who was told, and how it was resolved", "SELECT (event_id, replay_id, reason, escalated_at, " +
			"escalated_in_time, acknowledged_by, resolution) FROM dead_letters ORDER BY idx",
			[]string{"('e2','','permanently_rejected'," + at(12) + ",true,'bob','delivered')",
				"('e3','','deadline_exceeded',NULL,false,'','replayed')",
				"('e8','rpl_3','endpoint_unreachable',NULL,false,'','delivered before')"}},
		{"each escalation and its acknowledgement", "SELECT (event_id, at, action, outcome, in_time, acknowledged_at, " +
			"acknowledged_by) FROM escalations",
			[]string{"('e2'," + at(12) + ",'pager','delivered',true," + at(13) + ",'bob')"}},
		{"who replayed what and why, and its state", "SELECT (replay_id, event_id, endpoint_id, actor, reason, " +
			"requested_at, state) FROM replays ORDER BY replay_id",
			[]string{"('rpl_1','e2','ep_a','alice','receiver mended'," + at(14) + ",'delivered')",
				"('rpl_2','e3','ep_b','alice','try again'," + at(20) + ",'pending')",
				"('rpl_3','e8','ep_a','','',NULL,'dead_lettered')",
				"('rpl_4','e4','','carol','drill'," + at(36) + ",'requested')"}},
		{"an endpoint's changes", "SELECT (endpoint_revision, action, actor, event_types) FROM endpoint_history WHERE " +
			"endpoint_id = 'ep_a' ORDER BY idx",
			[]string{"(1,'create','alice',['order.*'])", "(2,'disable','alice',[])"}},
		{"that nothing owed is unaccounted for", "SELECT (tenant, endpoint_id, owed, delivered, dead_lettered, cancelled, " +
			"pending, not_owed, attempts_missing) FROM completeness WHERE endpoint_id != '' ORDER BY tenant, endpoint_id",
			[]string{"('acme','ep_a',4,3,0,1,0,0,0)", "('acme','ep_b',3,1,0,0,2,0,1)", "('other','ep_c',1,0,0,0,1,0,0)"}},
		{"that every event is counted", "SELECT (tenant, events_accepted, events_unmatched, events_rejected, expected) " +
			"FROM completeness WHERE endpoint_id = ''",
			[]string{"('acme',6,1,1,7)"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { compare(t, lines(t, conn, c.query), c.want) })
	}
}

// lines runs a query of one expression and gives each row as text.
func lines(t testing.TB, conn driver.Conn, query string) []string {
	t.Helper()
	rows, err := conn.Query(context.Background(), "SELECT toString(*) FROM ("+query+")")
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("row %d\n got %s\nwant %s", i, g, w)
		}
	}
}
