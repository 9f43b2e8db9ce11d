package testkit

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
)

// Ledger is what the stream LEDGER holds.
type Ledger struct{ records *seen[record.Record] }

// FollowLedger reads LEDGER from its first record on, for as long as the test runs.
func FollowLedger(t testing.TB, js jetstream.JetStream) *Ledger {
	t.Helper()
	l := &Ledger{newSeen[record.Record]()}
	c, err := js.OrderedConsumer(t.Context(), streams.Ledger, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		r, err := record.Decode(m.Data())
		if err != nil {
			t.Errorf("LEDGER holds what is no record: %v", err)
			return
		}
		l.records.add(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cc.Stop)
	return l
}

// Where returns the records that satisfy a condition, in their order.
func (l *Ledger) Where(cond func(record.Record) bool) []record.Record {
	var out []record.Record
	for _, r := range l.records.got() {
		if cond(r) {
			out = append(out, r)
		}
	}
	return out
}

// WaitFor waits until n records satisfy a condition, and returns them.
func (l *Ledger) WaitFor(t testing.TB, n int, cond func(record.Record) bool) (got []record.Record) {
	t.Helper()
	if !l.records.wait(func() bool { got = l.Where(cond); return len(got) >= n }) {
		kinds := map[record.Kind]int{}
		for _, r := range l.records.got() {
			kinds[r.Kind]++
		}
		t.Fatalf("LEDGER has %d such records, want %d; it holds %v", len(got), n, kinds)
	}
	return got
}
