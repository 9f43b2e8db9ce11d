package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// acrossMonths is a ledger of 2015 whose deliveries go on from one month to another.
func acrossMonths(t *testing.T) []ledger.Row {
	s := &story{t: t}
	tell := func(day string, kind record.Kind, event string, change func(*record.Record)) {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		s.tell(kind, event, "ep_a", func(r *record.Record) {
			r.At = at.Add(time.Duration(len(s.rows)) * time.Second)
			if kind == record.EventAccepted {
				r.EndpointID, r.Endpoints, r.EndpointIDs, r.StoredAt, r.DataDigest = "", 1, []string{"ep_a"}, r.At, "d"
			}
			if change != nil {
				change(r)
			}
		})
	}
	try := func(day, event, replay string, n int, class string) {
		tell(day, record.Attempt, event, func(r *record.Record) {
			r.Attempt, r.Class, r.Outcome, r.ReplayID = n, class, class,
				replay
		})
	}
	begin := func(day string, events ...string) {
		for _, e := range events {
			tell(day, record.EventAccepted, e, nil)
			tell(day, record.DeliveryOwed, e, nil)
			try(day, e, "", 1, "retryable")
		}
	}
	begin("2015-01-30", "tried", "dead", "long")
	tell("2015-01-30", record.EventAccepted, "again", nil)
	tell("2015-01-30", record.DeliveryOwed, "again", nil)
	try("2015-01-30", "again", "", 1, "delivered") // 11
	try("2015-02-02", "tried", "", 2, "delivered") // 12
	tell("2015-02-02", record.DeliveryDeadLetter, "dead", nil)
	tell("2015-02-02", record.ReplayRequested, "again", func(r *record.Record) { r.ReplayID = "rpl_1" })
	tell("2015-02-02", record.DeliveryOwed, "again", func(r *record.Record) { r.ReplayID = "rpl_1" })
	try("2015-02-02", "again", "rpl_1", 2, "delivered")
	try("2015-02-20", "long", "", 2, "retryable")
	try("2015-03-10", "long", "", 3, "delivered") // 18
	begin("2015-03-10", "young")                  // 19
	try("2015-03-11", "young", "", 2, "delivered")
	begin("2015-07-01", "later") // 23
	try("2015-07-02", "later", "", 2, "delivered")
	return s.rows
}

func TestADeliveryThatBeganInARetiredMonthIsToldApart(t *testing.T) {
	const drop = "ALTER TABLE records DROP PARTITION "
	cases := []struct {
		name     string
		retired  uint32 // month
		kept     bool   // and taken back
		harm     string
		owed     uint64
		begun    uint64
		want     []string
		withText string
	}{
		{name: "nothing is retired", owed: 6},
		{name: "the first month is", retired: 201501, harm: drop + "201501", owed: 2, begun: 4,
			withText: "4 deliveries were begun in a month that has been retired"},
		{name: "a month between is", retired: 201502, harm: drop + "201502", owed: 6},
		{name: "a month is gone that is not on record as retired", harm: drop + "201501", owed: 6, want: []string{
			"tried/ep_a attempt_missing", "tried/ep_a attempt_not_owed", "tried/ep_a event_missing", "dead/ep_a end_not_owed",
			"dead/ep_a event_missing",
			"again/ep_a attempt_missing", "again/ep_a event_missing", "long/ep_a attempt_missing", "long/ep_a attempt_not_owed",
			"long/ep_a event_missing", "/ index_missing"}},
		{name: "one that was taken back explains nothing", retired: 201501, kept: true,
			harm: "ALTER TABLE records DELETE WHERE idx = 0", owed: 6,
			want: []string{"tried/ep_a event_missing", "/ index_missing"}},
		{name: "a young obligation is removed beside it", retired: 201501,
			harm: "ALTER TABLE records DELETE WHERE idx = 20 OR toYYYYMM(at) = 201501", owed: 2, begun: 4,
			want: []string{"young/ep_a not_owed", "/ index_missing"}},
		{name: "an event is removed that is too young to have begun there", retired: 201501,
			harm: "ALTER TABLE records DELETE WHERE idx = 23 OR toYYYYMM(at) = 201501", owed: 2, begun: 4,
			want: []string{"later/ep_a event_missing", "/ index_missing"}},
		{name: "one that began there has something else wrong", retired: 201501, harm: "ALTER TABLE records UPDATE class " +
			"= 'delivered' WHERE idx = 17", owed: 6, want: []string{"long/ep_a attempt_after_end", "long/ep_a two_ends"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, conn, _ := open(t)
			ctx := context.Background()
			rows := acrossMonths(t)
			for rest := rows; len(rest) > 0; {
				n := ledger.SameMonth(rest)
				if err := db.Append(ctx, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if c.retired != 0 {
				ranges, err := db.MonthRanges(ctx, c.retired)
				if err != nil {
					t.Fatal(err)
				}
				s := &story{t: t, rows: rows}
				say := func(action string, ranges []record.IdxRange) {
					s.tell(record.OperatorAction, "", "", func(r *record.Record) {
						r.Action, r.Actor, r.Settings = action, "ann",
							record.Retirement{ID: "ret_1", Month: c.retired, Parts: 1, Part: 1, Ranges: ranges}.Settings()
					})
				}
				say(record.ActionRetired, ranges)
				if c.kept {
					say(record.ActionKept, nil)
				}
				if err := db.Append(ctx, s.rows[len(rows):]); err != nil {
					t.Fatal(err)
				}
			}
			if c.harm != "" {
				if err := conn.Exec(ctx, c.harm+" SETTINGS mutations_sync = 2"); err != nil {
					t.Fatal(err)
				}
			}
			sums, found, more, err := db.AuditBalances(ctx, audit.Filter{}, 100)
			if err != nil {
				t.Fatal(err)
			}
			indices, err := db.AuditIndices(ctx)
			if err != nil {
				t.Fatal(err)
			}
			answer := audit.NewCompleteness(audit.Filter{}, audit.Events{Accepted: 1}, sums, append(found, indices...), more,
				nil)
			var got []string
			for _, m := range answer.Mismatches {
				got = append(got, fmt.Sprintf("%s/%s %s", m.EventID, m.EndpointID, m.What))
			}
			compare(t, got, c.want)
			if answer.Total.Accepted != c.owed || answer.Total.BegunRetired != c.begun || answer.Balanced != (len(c.want) == 0) {
				t.Errorf("owed %d, begun in a retired month %d, balanced %v; want %d, %d", answer.Total.Accepted,
					answer.Total.BegunRetired, answer.Balanced, c.owed, c.begun)
			}
			if text := strings.Join(answer.Notes, "\n"); !strings.Contains(text, c.withText) {
				t.Errorf("lacks %q:\n%s", c.withText, text)
			}
			listed := lines(t, conn, "SELECT count() FROM audit_completeness WHERE begun_retired")
			compare(t, listed, []string{fmt.Sprint(c.begun)})
		})
	}
}
