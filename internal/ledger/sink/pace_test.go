package sink_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/streams"
)

// Whoever asks finds what was stored in LEDGER before, however long a batch may
// wait to fill up.
func TestWhoAsksNeedNotWaitForTheBatch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) { o.BatchAge = 24 * time.Hour })
	nc := h.nats.Connect()
	for n := range 3 {
		h.publish(5)
		eventually(t, "the sink answers", func() bool {
			_, err := nc.Request(streams.LedgerWanted, nil, patience)
			return err == nil // until the first session is open, nobody listens
		})
		if got := r.sink.Status().Stored; got != uint64(5*(n+1)) {
			t.Fatalf("%d records are stored when the sink answers, want %d", got, 5*(n+1))
		}
	}
	if _, err := nc.Request(streams.LedgerWanted, nil, patience); err != nil {
		t.Errorf("no answer when there is nothing to store: %v", err)
	}
	r.end()
	h.check(h.sent)
}
