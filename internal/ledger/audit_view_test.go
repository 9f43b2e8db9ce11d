package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

func TestTheAuditViewsAnswerTheirQuestions(t *testing.T) {
	t.Parallel()
	_, conn := openScenario(t)
	cases := []struct {
		name, query string
		want        []string
	}{
		{"every attempt, gaps as gaps", "SELECT (endpoint_id, attempt, state, status) FROM audit_attempts WHERE event_id " +
			"= 'e1' ORDER BY endpoint_id, attempt",
			[]string{"('ep_a',1,'answered',200)", "('ep_b',1,'answered',503)", "('ep_b',2,'unknown',0)",
				"('ep_b',3,'missing',0)", "('ep_b',4,'answered',200)"}},
		{"why there was each request after the first", "SELECT (event_id, endpoint_id, requests, may_have_arrived, " +
			"delivered, after_success, repeats) FROM audit_duplicates WHERE requests > 1 ORDER BY event_id",
			[]string{"('e1','ep_b',3,3,1,0,['attempt 2: attempt 1 ended as status_retryable with status 503','attempt 4: " +
				"what became of attempt 2 is unknown'])",
				"('e2','ep_a',2,2,1,0,['attempt 2: replay rpl_1 by alice, receiver mended'])"}},
		{"a refused connection brought nothing", "SELECT (requests, may_have_arrived) FROM audit_duplicates WHERE " +
			"event_id = 'e4'", []string{"(1,0)"}},
		{"each failure, how soon a human was told, and who took it", "SELECT (what, event_id, reason, time_to_human_us, " +
			"within_5_minutes, promise, escalated_in_time, acknowledged_by, resolution) FROM audit_failures ORDER BY idx",
			[]string{"('dead_letter','e2','permanently_rejected',1000000,true,'kept',true,'bob','delivered')",
				"('dead_letter','e3','deadline_exceeded',NULL,false,'broken',false,'','replayed')",
				"('rejected_event','e7','invalid_event',NULL,false,'broken',false,'','open')",
				"('dead_letter','e8','endpoint_unreachable',NULL,false,'broken',false,'','delivered before')"}},
		{"the digest of each attempt", "SELECT (endpoint_id, attempt, state, payload_digest, agrees) FROM audit_integrity " +
			"WHERE event_id = 'e1' ORDER BY endpoint_id, attempt",
			[]string{"('ep_a',1,'signed','digest-e1-1',true)", "('ep_b',1,'signed','digest-e1-1',true)",
				"('ep_b',2,'unknown','',true)", "('ep_b',4,'signed','digest-e1-4',true)"}},
		{"what ran on a day", "SELECT (day, sum(events_accepted), sum(events_unmatched), sum(events_rejected), " +
			"sum(delivered), sum(attempts_unknown), sum(dead_lettered), sum(people_told), sum(changes)) FROM audit_controls " +
			"WHERE tenant = 'acme' GROUP BY day",
			[]string{"('2026-11-02',6,1,1,4,1,3,1,2)"}},
		{"who changed what", "SELECT (kind, action, actor, endpoint_id, endpoint_revision) FROM audit_changes ORDER BY idx",
			[]string{"('endpoint.changed','create','alice','ep_a',1)", "('endpoint.changed','disable','alice','ep_a',2)"}},
		{"what is not as it should be, by name", "SELECT (tenant, event_id, endpoint_id, mismatches) FROM " +
			"audit_completeness WHERE notEmpty(mismatches) ORDER BY event_id, tenant",
			[]string{"('acme','e1','ep_b',[('attempt_missing','attempt 3 is not on record')])",
				"('other','e1','ep_c',[('event_missing','nothing is on record of the event itself')])"}},
		{"the same states as deliveries", "SELECT (a.tenant, a.event_id, a.endpoint_id, a.state, d.state) FROM " +
			"audit_completeness AS a FULL JOIN deliveries AS d USING (tenant, event_id, endpoint_id) WHERE a.state != d.state",
			nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { compare(t, lines(t, conn, c.query), c.want) })
	}
}

// whole is a ledger as it should be: three events to two endpoints.
func whole(t testing.TB) []ledger.Row {
	s := &story{t: t}
	for _, e := range []string{"w1", "w2", "w3"} {
		s.tell(record.EventAccepted, e, "", func(r *record.Record) {
			r.EventType, r.Endpoints, r.EndpointIDs, r.StoredAt, r.DataDigest = "order.paid", 2, []string{"ep_a", "ep_b"},
				r.At.Add(-time.Millisecond), "data-"+e
		})
		s.owed(e, "ep_a", "")
		s.owed(e, "ep_b", "")
		s.delivered(e, "ep_a", "", 1)
		s.attempt(e, "ep_b", "", 1, 503, "status_retryable", "retryable", "retry")
		s.delivered(e, "ep_b", "", 2)
	}
	s.tell(record.ReplayRequested, "w3", "ep_a",
		func(r *record.Record) { r.ReplayID, r.Actor, r.Reason = "rpl_9", "alice", "drill" })
	s.owed("w3", "ep_a", "rpl_9")
	s.delivered("w3", "ep_a", "rpl_9", 2) // 20
	return s.rows
}

func TestEachThingThatIsWrongIsNamedWithItsDelivery(t *testing.T) {
	t.Parallel()
	// Rows of one event: accepted, owed a, owed b, a 1, b 1, b 2; w2 begins at 6, w3 at 12.
	cases := []struct {
		name string
		harm string // of a whole ledger, by somebody with every right
		want []string
	}{
		{"nothing", "", nil},
		{"an obligation removed", "ALTER TABLE records DELETE WHERE idx = 8",
			[]string{"w2/ep_b not_owed", "/ index_missing"}},
		{"an obligation given to another endpoint", "ALTER TABLE records UPDATE endpoint_id = 'ep_z' WHERE idx = 8",
			[]string{"w2/ep_b not_owed", "w2/ep_z not_promised"}},
		{"an attempt removed", "ALTER TABLE records DELETE WHERE idx = 10",
			[]string{"w2/ep_b attempt_missing", "/ index_missing"}},
		{"an attempt given another number", "ALTER TABLE records UPDATE attempt = 2 WHERE idx = 10",
			[]string{"w2/ep_b attempt_missing", "w2/ep_b attempt_twice"}},
		{"an event removed", "ALTER TABLE records DELETE WHERE idx = 6",
			[]string{"w2/ep_a event_missing", "w2/ep_b event_missing", "/ index_missing"}},
		{"an attempt turned into a second success", "ALTER TABLE records UPDATE class = 'delivered' WHERE idx = 10",
			[]string{"w2/ep_b attempt_after_end", "w2/ep_b two_ends"}},
		{"a replay's obligation removed", "ALTER TABLE records DELETE WHERE idx = 19",
			[]string{"w3/ep_a attempt_not_owed", "/ index_missing"}},
		{"a row repeated", "INSERT INTO records SELECT * FROM records WHERE idx = 7",
			[]string{"w2/ep_a owed_twice", "/ index_twice"}},
		{"attempts moved to an event that nobody published", "ALTER TABLE records UPDATE event_id = 'w9' WHERE idx = 9",
			[]string{"w9/ep_a attempt_not_owed", "w9/ep_a event_missing"}},
		{"the last row of all removed is what only LEDGER and verify can tell", "ALTER TABLE records DELETE WHERE idx = 20",
			nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, conn, _ := open(t)
			ctx := context.Background()
			if err := db.Append(ctx, whole(t)); err != nil {
				t.Fatal(err)
			}
			if c.harm != "" {
				if err := conn.Exec(ctx, c.harm+" SETTINGS mutations_sync = 2"); err != nil {
					t.Fatal(err)
				}
			}
			rows, found, more, err := db.AuditBalances(ctx, audit.Filter{}, 100)
			if err != nil {
				t.Fatal(err)
			}
			indices, err := db.AuditIndices(ctx)
			if err != nil {
				t.Fatal(err)
			}
			answer := audit.NewCompleteness(audit.Filter{}, audit.Events{}, rows, append(found, indices...), more, nil)
			var got []string
			for _, m := range answer.Mismatches {
				got = append(got, m.EventID+"/"+m.EndpointID+" "+m.What)
				if m.Detail == "" || m.EventID != "" && m.At.IsZero() {
					t.Errorf("%+v says too little", m)
				}
			}
			compare(t, got, c.want)
			if answer.Balanced != (len(c.want) == 0) {
				t.Errorf("balanced: %v, with %v", answer.Balanced, got)
			}
		})
	}
}

// A long period is asked in windows: whatever their size, each delivery counts once.
func TestAPeriodThatIsAskedInWindowsCountsEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	s := &story{t: t}
	const n = 300
	for i := range n {
		e := fmt.Sprint("e", i)
		s.tell(record.EventAccepted, e, "", func(r *record.Record) {
			r.Endpoints, r.EndpointIDs, r.StoredAt, r.DataDigest = 1, []string{"ep_a"}, r.At, "d"
		})
		s.owed(e, "ep_a", "")
		s.attempt(e, "ep_a", "", 1, 503, "status_retryable", "retryable", "retry")
	}
	for i := range n { // hours later
		s.delivered(fmt.Sprint("e", i), "ep_a", "", 2)
	}
	for i := range s.rows { // spread over days
		r := s.rows[i].Record
		r.At = noon.Add(time.Duration(i) * 2 * time.Minute)
		s.rows[i] = row(t, uint64(i), r)
	}
	ctx := context.Background()
	if err := db.Append(ctx, s.rows); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{150, 100_000} {
		db.SetWindowRecords(size)
		rows, found, more, err := db.AuditBalances(ctx, audit.Filter{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		total := audit.Fold(rows, audit.Total)[0]
		if total.Accepted != n || total.Delivered != n || total.Attempts != 2*n || len(found) != 0 || more != 0 {
			t.Errorf("windows of %d: %+v, %v", size, total, found)
		}
		if l := audit.LatencyOf(rows); l.Count != n || l.P50US < int64(time.Hour/time.Microsecond) {
			t.Errorf("windows of %d: latency %+v", size, l)
		}
		list, rest, sums, err := db.AuditDuplicates(ctx, audit.Filter{}, false, 7)
		if err != nil || len(list) != 7 || rest != n-7 || sums.Deliveries != n || sums.Repeated != n || sums.Requests != 2*n {
			t.Errorf("windows of %d: %d listed, %d more, %+v, %v", size, len(list), rest, sums, err)
		}
		signed, rest, digests, err := db.AuditIntegrity(ctx, audit.Filter{Tenant: "acme", EndpointID: "ep_a"}, 7)
		if err != nil || len(signed) != 7 || rest != 2*n-7 || digests.Signed != 2*n || digests.Disagree != 0 {
			t.Errorf("windows of %d: %d listed, %d more, %+v, %v", size, len(signed), rest, digests, err)
		}
	}
	// A period takes what was accepted in it, wherever its end lies.
	from, to := noon.Add(30*2*time.Minute), noon.Add(60*2*time.Minute)
	rows, _, _, err := db.AuditBalances(ctx, audit.Filter{From: from, To: to}, 10)
	if total := audit.Fold(rows, audit.Total)[0]; err != nil || total.Accepted != 10 || total.Delivered != 10 {
		t.Errorf("a period: %+v, %v", total, err)
	}
	compare(t, lines(t, conn, "SELECT count() FROM audit_completeness WHERE state = 'delivered'"), []string{fmt.Sprint(n)})
}

func TestOneEventsAttemptsAreReadFromFewBlocks(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	fill(t, conn, 400_000)
	ids := lines(t, conn, "SELECT event_id FROM records WHERE kind = 'attempt' AND idx > 200000 ORDER BY idx LIMIT 1")
	if len(ids) != 1 {
		t.Fatal(ids)
	}
	rows, more, err := db.AuditAttempts(context.Background(), audit.Filter{EventID: ids[0]}, 100)
	if err != nil || len(rows) == 0 || more != 0 {
		t.Fatalf("%d rows, %d more, %v", len(rows), more, err)
	}
	for _, view := range []string{"audit_attempts", "audit_duplicates", "audit_integrity", "audit_completeness"} {
		plan := strings.Join(lines(t, conn, fmt.Sprintf("SELECT explain FROM (EXPLAIN indexes = 1 SELECT * FROM %s WHERE "+
			"event_id = '%s')", view, ids[0])), "\n")
		if !strings.Contains(plan, "by_event") {
			t.Errorf("%s does not use the index on event_id:\n%s", view, plan)
		}
	}
}

// fill makes n records as SQL can: five for each event.
func fill(t testing.TB, conn driver.Conn, n int) {
	t.Helper()
	err := conn.Exec(context.Background(), fmt.Sprintf(`INSERT INTO records (idx, stream_seq, stream_epoch, body, id, kind, at, tenant, event_id, endpoint_id, attempt, outcome, class, status, payload_digest, endpoints)
		SELECT number, number + 1, 7, if(k = 0, '{"endpoint_ids":["ep_a","ep_b"],"data_digest":"d"}', '{}'), concat('r', toString(number)),
			['event.accepted', 'delivery.owed', 'delivery.owed', 'attempt', 'attempt'][k + 1], fromUnixTimestamp64Nano(toInt64(1793620800000000000 + number * 1000000000), 'UTC') AS at, 'acme',
			concat('evt_', lower(hex(SHA256(toString(intDiv(number, 5)))))), ['', 'ep_a', 'ep_b', 'ep_a', 'ep_b'][k + 1], if(k > 2, 1, 0), if(k > 2, 'delivered', ''), if(k > 2, 'delivered', ''), if(k > 2, 200, 0),
			if(k > 2, toString(intDiv(number, 5)), ''), if(k = 0, 2, 0)
		FROM (SELECT number, number %% 5 AS k FROM numbers(%d))`, n))
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkQuestionOne(b *testing.B) {
	db, conn, _ := open(b)
	const n = 10_000_000
	fill(b, conn, n)
	ids := lines(b, conn, "SELECT event_id FROM records WHERE kind = 'event.accepted' AND idx % 1000003 < 5 ORDER BY "+
		"idx LIMIT 20")
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		if rows, _, err := db.AuditAttempts(context.Background(), audit.Filter{EventID: ids[i%len(ids)]}, 100); err != nil ||
			len(rows) != 2 {
			b.Fatal(len(rows), err)
		}
	}
}

// A legal hold and a new key are the whole deployment's, though their records name a tenant.
func TestHoldsAndKeysAreListedWhateverTheTenant(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	s := &story{t: t}
	for action, tenant := range map[string]string{"hold.added": "default", "ledger.key_rotated": "waybill",
		"channel.tested": "other"} {
		s.tell(record.OperatorAction, "", "", func(r *record.Record) { r.Action, r.Tenant = action, tenant })
	}
	if err := db.Append(context.Background(), s.rows); err != nil {
		t.Fatal(err)
	}
	rows, _, err := db.AuditChanges(context.Background(), audit.Filter{Tenant: "acme"}, 10)
	if err != nil || len(rows) != 2 || rows[0].Tenant == "other" || rows[1].Tenant == "other" {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestWhatIsNotKnownIsSaid(t *testing.T) {
	t.Parallel()
	db, _ := openScenario(t)
	for _, c := range []struct {
		f    audit.Filter
		want string
	}{{audit.Filter{}, ""}, {audit.Filter{Tenant: "acme", EndpointID: "ep_a", EventID: "e1"}, ""},
		{audit.Filter{Tenant: "nobody"}, "tenant nobody"},
		{audit.Filter{EndpointID: "ep_x'"}, "endpoint ep_x'"}, {audit.Filter{EventID: "e99"}, "event e99"},
		{audit.Filter{Tenant: "other", EndpointID: "ep_a"}, "endpoint ep_a of tenant other"},
		{audit.Filter{Tenant: "other", EventID: "e2"}, "event e2 of tenant other"}} {
		if got, err := db.Known(context.Background(), c.f); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c.f, got, err)
		}
	}
	attempts, _, err := db.AuditAttempts(context.Background(), audit.Filter{EventID: "e1", Tenant: "acme"}, 100)
	if err != nil || len(attempts) != 5 || attempts[3].State != audit.Missing || attempts[3].Number != 3 ||
		attempts[2].State != audit.Unknown {
		t.Errorf("%+v, %v", attempts, err)
	}
	if attempts, more, err := db.AuditAttempts(context.Background(),
		audit.Filter{EventID: "e1", Tenant: "acme", EndpointID: "ep_b"}, 1); err != nil || len(attempts) != 1 || more != 3 {
		t.Errorf("%d, %d more, %v", len(attempts), more, err)
	}
	checkpoints, err := db.AuditCheckpoints(context.Background(), audit.Filter{From: noon})
	if err != nil || checkpoints.Covering != nil || !checkpoints.Records || checkpoints.LastIdx != 38 {
		t.Errorf("%+v, %v", checkpoints, err)
	}
	replays, more, err := db.AuditReplays(context.Background(), audit.Filter{From: noon}, 2)
	if err != nil || len(replays) != 2 || more != 1 || replays[0].Actor != "alice" {
		t.Errorf("%+v, %d more, %v", replays, more, err)
	}
	days, err := db.AuditDays(context.Background(), audit.Filter{Tenant: "acme", From: noon, To: noon.Add(time.Hour)})
	if err != nil || len(days) != 1 || days[0].Day != "2026-11-02" || days[0].EventsAccepted != 6 {
		t.Errorf("%+v, %v", days, err)
	}
}
