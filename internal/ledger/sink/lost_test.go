package sink_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/streams"
)

// The last message is lost between the server and the sink, and no other follows
// that would tell of it: the sink reads it again all the same.
func TestTheLastMessageThatIsLostOnTheWayIsReadAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) { o.BatchRecords = 2 })
	total := 10
	h.publish(total)
	r.waitStored(total)
	// Whoever else asks the sink's consumer gets what the sink never sees.
	consumer, err := h.js.Consumer(t.Context(), streams.Ledger, streams.LedgerSinkConsumer)
	if err != nil {
		t.Fatal(err)
	}
	other, err := consumer.Fetch(1, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	for lost := false; !lost; {
		h.publish(1)
		total++
		select {
		case <-r.ledger.reached(uint64(total)):
		case <-other.Messages():
			lost = true
		}
	}
	r.waitStored(total)
	r.end()
	h.check(h.sent)
}
