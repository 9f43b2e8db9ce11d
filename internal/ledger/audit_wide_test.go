package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// The endpoints of one event, and what a question about it may take: a multiple of
// what its records are, never of their square.
const (
	wideEndpoints = 50_000
	wideMemory    = 1 << 30
)

// Each question of an audit is answered about an event that is owed to 50,000
// endpoints, of which one has no attempt.
func TestEachQuestionIsAnsweredAboutAVeryWideEvent(t *testing.T) {
	db, _, _ := open(t)
	rows := wideEvent(t)
	for len(rows) > 0 {
		n := min(len(rows), 10_000)
		if err := db.Append(t.Context(), rows[:n]); err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_memory_usage": wideMemory}))
	f := audit.Filter{}
	const limit = 100
	for name, ask := range map[string]func() error{
		"balances": func() error {
			rows, found, more, err := db.AuditBalances(ctx, f, limit)
			sum := audit.Balance{}
			for _, r := range rows {
				sum.Accepted, sum.Delivered, sum.Pending = sum.Accepted+r.Accepted, sum.Delivered+r.Delivered, sum.Pending+r.Pending
			}
			if sum.Accepted != wideEndpoints || sum.Delivered != wideEndpoints-1 || sum.Pending != 1 || len(found) != 0 ||
				more != 0 {
				return fmt.Errorf("%d accepted, %d delivered, %d pending, %v, %w", sum.Accepted, sum.Delivered, sum.Pending, found,
					err)
			}
			return err
		},
		"attempts": func() error {
			rows, more, err := db.AuditAttempts(ctx, f, limit)
			return enough(len(rows), more, wideEndpoints-1, err)
		},
		"duplicates": func() error {
			rows, more, _, err := db.AuditDuplicates(ctx, f, true, limit)
			return enough(len(rows), more, wideEndpoints-1, err)
		},
		"integrity": func() error {
			rows, more, _, err := db.AuditIntegrity(ctx, f, limit)
			return enough(len(rows), more, wideEndpoints-1, err)
		},
		"failures": func() error {
			rows, more, _, err := db.AuditFailures(ctx, f, limit)
			return enough(len(rows), more, 0, err)
		},
		"missing attempts": func() error {
			rows, more, err := db.AuditAttemptGaps(ctx, f, limit)
			return enough(len(rows), more, 0, err)
		},
		"contents": func() error {
			found, more, err := db.AuditContents(ctx, f, limit)
			return enough(len(found), more, 0, err)
		},
		"days": func() error {
			days, err := db.AuditDays(ctx, f)
			return enough(len(days), 0, 1, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := ask(); err != nil {
				t.Error(err)
			}
		})
	}
}

// enough says whether a list and what is beyond it are as many as want.
func enough(n int, more uint64, want int, err error) error {
	if err == nil && uint64(n)+more != uint64(want) {
		return fmt.Errorf("%d rows and %d more, want %d", n, more, want)
	}
	return err
}

// wideEvent is an event with a delivery to each of many endpoints; all but the
// last have an attempt.
func wideEvent(t *testing.T) (rows []ledger.Row) {
	t.Helper()
	add := func(r record.Record) {
		r.ID, r.At = fmt.Sprintf("rec-%d", len(rows)), noon.Add(time.Duration(len(rows))*time.Millisecond)
		r.Tenant, r.EventID, r.EventType = "acme", "wide-1", "order.paid"
		rows = append(rows, row(t, uint64(len(rows)), r))
	}
	add(record.Record{Kind: record.EventAccepted, Endpoints: wideEndpoints, EventSeq: 1})
	for i := range wideEndpoints {
		add(record.Record{Kind: record.DeliveryOwed, EndpointID: fmt.Sprintf("ep_%05d", i)})
	}
	for i := range wideEndpoints - 1 {
		add(record.Record{Kind: record.Attempt, EndpointID: fmt.Sprintf("ep_%05d", i), Attempt: 1, Status: 200,
			Outcome: "delivered",
			Class:   "delivered", Decision: "delivered", StartedAt: noon, PayloadDigest: "digest",
			URL: "https://receiver.example/in"})
	}
	return rows
}
