package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
)

// mortal is a dispatcher that a test can kill: its connection is cut, so that
// whatever it was doing, nothing of it is stored any more.
func (b *bench) mortal() (kill func()) {
	cut := make(chan func(), 1)
	r := b.dispatcher(func(o *dispatcher.Options) { cut <- o.NC.Close; o.DrainTimeout = time.Millisecond })
	return func() { (<-cut)(); r.Cancel() }
}

func fifo(e *registry.Endpoint) { e.Ordering = registry.FIFO }

func TestAnEndpointThatKeepsOrderGetsEventsInTheOrderOfEvents(t *testing.T) {
	t.Parallel()
	const events = 80
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ request) {
		if rand.IntN(3) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e := b.endpoint(r, fifo, func(e *registry.Endpoint) {
		e.Timeout, e.Policy = time.Second, quick(200, 5*time.Millisecond)
	})
	other := newReceiver(t, ok)
	b.endpoint(other)
	b.fanout()
	b.fanout()
	kills := []func(){b.mortal(), b.mortal()}
	var futures []jetstream.PubAckFuture
	for i := range events {
		id := fmt.Sprintf("evt-%03d", i)
		f, err := b.js.PublishAsync("events.default.order.paid",
			fmt.Appendf(nil, `{"id":%q,"type":"order.paid","timestamp":"2026-08-19T15:10:00Z","data":%d}`, id, i),
			jetstream.WithMsgID(id))
		must(t, err)
		futures = append(futures, f)
	}
	for _, f := range futures {
		<-f.Ok()
	}
	delivered := func(r record.Record) bool { return r.EndpointID == e.ID && r.Class == "delivered" }
	b.ledger.WaitFor(t, events/4, delivered)
	kills[0]()
	b.ledger.WaitFor(t, events/2, delivered)
	kills[1]()
	b.mortal()
	b.ledger.WaitFor(t, events, delivered)
	b.settled()

	seqOf := map[string]uint64{}
	for _, a := range b.ledger.Where(kind(record.EventAccepted)) {
		seqOf[a.EventID] = a.EventSeq
	}
	last := uint64(0)
	for _, a := range b.ledger.Where(delivered) {
		if seq := seqOf[a.EventID]; seq <= last {
			t.Errorf("%s (%d) was delivered after event %d", a.EventID, seq, last)
		} else {
			last = seq
		}
	}
	last = 0
	for _, q := range r.Got() { // requests too never go back, whatever was killed
		if seq := seqOf[q.id]; seq < last {
			t.Errorf("a request for %s (%d) came after one for event %d", q.id, seq, last)
		} else {
			last = seq
		}
	}
	numbers := map[string]int{}
	for _, a := range b.ledger.Where(func(r record.Record) bool {
		return r.Kind == record.Attempt &&
			r.EndpointID == e.ID
	}) {
		if numbers[a.EventID]++; a.Attempt != numbers[a.EventID] {
			t.Errorf("%s: attempt %d is on record as number %d", a.EventID, numbers[a.EventID], a.Attempt)
		}
	}
	if n := len(other.Got()); n < events {
		t.Errorf("the endpoint without order got %d requests", n)
	}
}

func TestTheHeadOfAnEndpointThatKeepsOrderBlocksUntilItsBudgetIsSpent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, q request) {
		if q.id == "first" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e := b.endpoint(r, fifo, func(e *registry.Endpoint) { e.Policy = quick(3, 200*time.Millisecond) })
	b.fanout()
	b.dispatcher()
	b.publish("default", "first", "order.paid", `1`)
	b.publish("default", "second", "order.paid", `2`)
	got := r.WaitFor(t, 4)
	b.settled()
	for i, want := range []struct {
		id      string
		attempt int
	}{{"first", 1}, {"first", 2}, {"first", 3}, {"second", 1}} {
		if got[i].id != want.id || got[i].attempt != want.attempt {
			t.Errorf("request %d is attempt %d of %s, want %+v", i, got[i].attempt, got[i].id, want)
		}
	}
	if d := got[1].at.Sub(got[0].at); d < 200*time.Millisecond {
		t.Errorf("the second attempt came %s after the first", d)
	}
	if dead := b.ledger.Where(kind(record.DeliveryDeadLetter)); len(dead) != 1 || dead[0].Attempts != 3 ||
		dead[0].EndpointID != e.ID {
		t.Errorf("dead letters: %+v", dead)
	}
	_, err := b.store.Update(context.Background(), e.ID, "test", "deleted", "",
		func(e *registry.Endpoint) error { e.State = registry.Deleted; return nil })
	must(t, err)
}
