package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// An event is on record as accepted, and to whom it is owed is on its way.
func TestWhatIsOnItsWayIsNoMismatch(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	ctx := context.Background()
	now := time.Now().UTC()
	accepted := func(id string, at time.Time) record.Record {
		return record.Record{ID: "event/" + id, Kind: record.EventAccepted, At: at, Tenant: "acme", EventID: id, Endpoints: 1,
			EndpointIDs: []string{"ep_1"}}
	}
	tried := record.Record{ID: "att_1", Kind: record.Attempt, At: now, Tenant: "acme", EventID: "e-2", EndpointID: "ep_9",
		Attempt: 1, Class: "delivered"}
	var rows []ledger.Row
	for i, r := range []record.Record{accepted("e-1", now), accepted("e-2", now), tried} {
		rows = append(rows, row(t, uint64(i), r))
	}
	for rest := rows; len(rest) > 0; {
		n := ledger.SameMonth(rest)
		if err := db.Append(ctx, rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	newest, err := db.AuditSettled(ctx)
	if err != nil || !newest.Equal(now.Add(-audit.SettleGrace)) {
		t.Errorf("settled until %s, %v; want a grace before %s", newest, err, now)
	}
	ask := func(settled time.Time, unsettled, mismatched uint64) {
		t.Helper()
		f := audit.Filter{Settled: settled}
		sums, found, more, err := db.AuditBalances(ctx, f, 100)
		if err != nil {
			t.Fatal(err)
		}
		a := audit.NewCompleteness(f, audit.Events{Accepted: 2}, sums, found, more, nil)
		if a.Total.Unsettled != unsettled || a.Total.Mismatched != mismatched || a.Balanced != (mismatched == 0) ||
			(mismatched == 0) != (len(found) == 0) {
			t.Errorf("settled until %s: %d not settled, %d mismatched, balanced %v: %+v", settled, a.Total.Unsettled,
				a.Total.Mismatched, a.Balanced, found)
		}
	}
	ask(time.Time{}, 0, 3)
	// An attempt that nothing made owed does not become right by what comes.
	ask(now.Add(-time.Second), 2, 1)
	ask(now.Add(time.Second), 0, 3)

	// A record that is dated ahead is not on its way for ever.
	ahead := row(t, uint64(len(rows)), accepted("e-3", now.AddDate(50, 0, 0)))
	if err := db.Append(ctx, []ledger.Row{ahead}); err != nil {
		t.Fatal(err)
	}
	ask(now.Add(-time.Second), 2, 2)
}
