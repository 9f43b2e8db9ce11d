package sink_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// backedUp is a ledger of n records, of which the first half are in a backup and
// all were lost from ClickHouse.
func backedUp(t *testing.T, n int) *harness {
	t.Helper()
	dir := t.TempDir()
	e := testkit.StartClickHouseWith(t, engine.Options{Dir: dir, ConfigXML: roles.EngineXML(dir)})
	h := newHarnessOn(t, e.DSN("", "waybill"))
	r := h.start(&faulty{Ledger: h.db()}, nil)
	h.publish(n / 2)
	r.waitStored(n / 2)
	if err := h.db().Backup(t.Context(), "File('b')"); err != nil {
		t.Fatal(err)
	}
	h.publish(n - n/2)
	r.waitStored(n)
	r.end()
	if err := h.db().Restore(t.Context(), "File('b')"); err == nil {
		t.Fatal("a backup was restored over records")
	}
	if err := h.conn.Exec(t.Context(), "DROP DATABASE waybill SYNC"); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestARestoredLedgerGetsItsTailFromTheStream(t *testing.T) {
	t.Parallel()
	h := backedUp(t, 400)
	if err := h.db().Restore(t.Context(), "File('b')"); err != nil {
		t.Fatal(err)
	}
	if p, err := h.db().Position(t.Context()); err != nil || p.Next != 200 {
		t.Fatalf("restored: %+v %v", p, err)
	}
	r := h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(400)
	r.end()
	h.check(h.sent)
}

func TestWhatNeitherBackupNorStreamHasIsAGapOnRecord(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]bool{"from a backup": true, "from nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := backedUp(t, 400)
			first := 1
			if restore {
				first = 201
				if err := h.db().Restore(t.Context(), "File('b')"); err != nil {
					t.Fatal(err)
				}
			}
			stream, err := h.js.Stream(t.Context(), streams.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(context.Background(), jetstream.WithPurgeSequence(301)); err != nil {
				t.Fatal(err)
			}
			stored := first - 1 + 100
			r := h.start(&faulty{Ledger: h.db()}, nil)
			r.waitStored(stored + 1) // and the gap
			r.end()
			var gaps string
			if err := h.conn.QueryRow(t.Context(), "SELECT arrayStringConcat(groupArray(concat(toString(gap_from), '-', "+
				"toString(gap_to)))) FROM waybill.records WHERE kind = 'ledger.gap'").Scan(&gaps); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%d-300", first); gaps != want {
				t.Errorf("gaps %q, want %q", gaps, want)
			}
		})
	}
}
