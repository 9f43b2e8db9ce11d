package sink_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/internal/ledger/verify/outside"
)

// Somebody who may do everything deletes the last records in place. ClickHouse
// still knows the tokens under which they came, and LEDGER still has them.
func TestATailThatWasDeletedInPlaceComesBack(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string][]string{
		"lightly":        {"DELETE FROM records WHERE idx >= 300 SETTINGS lightweight_deletes_sync = 2"},
		"by mutation":    {"ALTER TABLE records DELETE WHERE idx >= 300 SETTINGS mutations_sync = 2"},
		"within a batch": {"DELETE FROM records WHERE idx >= 333 SETTINGS lightweight_deletes_sync = 2"},
		"all":            {"ALTER TABLE records DELETE WHERE 1 SETTINGS mutations_sync = 2"},
		"with its tiles": {"ALTER TABLE records DELETE WHERE idx >= 300 SETTINGS mutations_sync = 2",
			"ALTER TABLE tiles DELETE WHERE tile >= 1 OR level > 0 SETTINGS mutations_sync = 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			if err := h.db().Migrate(context.Background()); err != nil {
				t.Fatal(err)
			}
			h.publish(700)
			p := h.startProcess(t)
			h.waitRows(t, 700)
			h.checkLog()
			for range 2 { // the second time, the second token is spent as well
				p.end()
				for _, statement := range deletes {
					if err := h.conn.Exec(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
				p = h.startProcess(t)
				h.waitRows(t, 700)
				h.checkLog() // it signs again
			}
			h.publish(50)
			h.waitRows(t, 750) // a refusal to sign may be a record of its own
			h.checkLog()
			p.end()
			h.checkPrefix(h.sent[:700])
			h.verifyGood()
		})
	}
}

// A sink that waits finds out before it writes on: what it would write stands
// behind a hole.
func TestATailThatIsDeletedWhileTheSinkWaitsComesBackToo(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(100)
	r := h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(100)
	if err := h.conn.Exec(t.Context(), "DELETE FROM records WHERE idx >= 40 SETTINGS lightweight_deletes_sync = 2"); err != nil {
		t.Fatal(err)
	}
	h.publish(30)
	r.waitStored(130)
	r.end()
	h.check(h.sent)
}

// cutInFlight is a session's insert that lands when another sink has found its
// token spent and its rows deleted.
type cutInFlight struct {
	sink.Ledger
	late func()
	done bool
}

func (c *cutInFlight) Append(ctx context.Context, rows []ledger.Row) error {
	if err := c.Ledger.Append(ctx, rows); err != nil {
		return err
	}
	if !c.done {
		c.done = true
		c.late()
	}
	return nil
}

func TestALateInsertBehindADeletedTailIsNotDoubled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(60)
	var last []ledger.Row
	f := &faulty{Ledger: h.db()}
	f.appended = func(rows []ledger.Row) {
		if rows[0].Idx == 50 {
			last = rows
		}
	}
	ten := func(o *sink.Options) { o.BatchRecords = 10 }
	r := h.start(f, ten)
	r.waitStored(60)
	r.end()
	for range 3 {
		if err := h.conn.Exec(t.Context(), "DELETE FROM records WHERE idx >= 50 SETTINGS lightweight_deletes_sync = 2"); err != nil {
			t.Fatal(err)
		}
		late := h.db()
		c := &cutInFlight{Ledger: h.db(), late: func() {
			if err := late.Append(context.Background(), last); err != nil {
				t.Error(err)
			}
		}}
		r = h.start(&faulty{Ledger: c}, ten)
		r.waitStored(60)
		r.end()
		h.check(h.sent)
	}
}

// checkPrefix compares the records that were published with those in
// ClickHouse, without those that the log itself made.
func (h *harness) checkPrefix(want []fact) {
	h.t.Helper()
	rows, err := h.conn.Query(context.Background(), "SELECT id, body FROM records ORDER BY idx LIMIT ?", len(want))
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	i := 0
	for ; rows.Next(); i++ {
		var id, body string
		if err := rows.Scan(&id, &body); err != nil {
			h.t.Fatal(err)
		}
		if id != want[i].id || body != want[i].body {
			h.t.Fatalf("record %d is %s, want %s", i, id, want[i].id)
		}
	}
	if i != len(want) {
		h.t.Fatalf("%d records, want %d", i, len(want))
	}
}

// verifyGood verifies as the command does, with both streams.
func (h *harness) verifyGood() {
	h.t.Helper()
	ctx := context.Background()
	keys, err := checkpoint.OpenKeys(h.keyFile())
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := checkpoint.NewVerifier(keys.List()[0].Verifier)
	if err != nil {
		h.t.Fatal(err)
	}
	published, _, err := outside.Checkpoints(ctx, h.js)
	if err != nil {
		h.t.Fatal(err)
	}
	report, err := verify.Run(ctx, &ledger.Verified{DB: h.db()},
		verify.Options{Now: time.Now(), Keys: []note.Verifier{key}, Outside: published, Stream: &outside.Ledger{JS: h.js}})
	if err != nil {
		h.t.Fatal(err)
	}
	if !report.Good || report.Stream == nil || report.Stream.Compared == 0 {
		h.t.Errorf("not good: %s\n%+v", report.Codes(), report.Findings)
	}
}
