package pipeline_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
)

// A server that is killed may forget that a message was acknowledged, and that
// anybody held it: it comes back as if it were new.
func TestAMessageThatComesBackAsIfItWereNewMakesNoSecondRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, q request) {
		if q.attempt < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	shortMemory(b, streams.Claims, streams.Ledger, streams.Deliveries, streams.Retry)
	c := newCrash(b, b.endpoint(r))
	first := b.dispatcher()
	c.owe()
	r.WaitFor(t, 3)
	b.settled()
	before := b.ledger.WaitFor(t, 3, kind(record.Attempt))
	first.Stop(t)
	b.forget(streams.Claims, streams.ClaimSubject(ids.New(ids.Endpoint, time.Now())))
	b.forget(streams.Ledger, "ledger.probe.default")
	again := b.watch("retry.>")
	c.owe() // as it was
	b.dispatcher()
	b.settled()
	b.allHeld(again, 2)
	if got := r.Got(); len(got) != 3 {
		t.Errorf("%d requests: the fourth has attempt number %d", len(got), got[3].attempt)
	}
	if after := attemptsOf(b); len(after) != len(before) {
		t.Errorf("%d attempts on record; there were %d", len(after), len(before))
	}
}

// The same for an event: it is expanded again, and its deliveries are published
// again into a queue that has forgotten them.
func TestAnEventThatComesBackAsIfItWereNewMakesNoSecondRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	shortMemory(b, streams.Claims, streams.Ledger, streams.Deliveries)
	b.endpoint(r)
	fanout := b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	r.WaitFor(t, 1)
	b.settled()
	b.ledger.WaitFor(t, 1, kind(record.Attempt))
	fanout.Stop(t)
	b.forget(streams.Claims, streams.ClaimSubject(ids.New(ids.Endpoint, time.Now())))
	b.forget(streams.Ledger, "ledger.probe.default")
	b.anew(streams.Events, streams.FanoutConsumer)
	again := b.watch("deliveries.>")
	b.fanout()
	b.stored(t, streams.Events, streams.FanoutConsumer)
	b.settled()
	b.allHeld(again, 1)
	if got := r.Got(); len(got) != 1 {
		t.Errorf("%d requests: the second has attempt number %d", len(got), got[1].attempt)
	}
}

// watch sees what is published on a subject from now on.
func (b *bench) watch(subject string) *nats.Subscription {
	b.t.Helper()
	nc := b.server.Connect()
	sub, err := nc.SubscribeSync(subject)
	must(b.t, err)
	must(b.t, nc.Flush())
	return sub
}

// allHeld: what is stated again says so, for whoever takes it long after.
func (b *bench) allHeld(sub *nats.Subscription, n int) {
	b.t.Helper()
	for i := range n {
		m, err := sub.NextMsg(patience)
		if err != nil {
			b.t.Fatalf("%d of %d messages: %v", i, n, err)
		}
		if m.Header.Get(streams.HeaderHeldSince) == "" {
			b.t.Errorf("%s does not say that it was held before: %v", m.Subject, m.Header)
		}
	}
}

// anew makes a consumer that was never handed anything out of one that was.
func (b *bench) anew(stream, consumer string) {
	b.t.Helper()
	c, err := b.js.Consumer(b.t.Context(), stream, consumer)
	must(b.t, err)
	must(b.t, b.js.DeleteConsumer(b.t.Context(), stream, consumer))
	_, err = b.js.CreateConsumer(b.t.Context(), stream, c.CachedInfo().Config)
	must(b.t, err)
}
