package pipeline_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/registry"
)

func TestThreeDispatchersTogetherKeepAnEndpointsRateLimit(t *testing.T) {
	const perSecond, events = 20, 120
	b := newBench(t)
	var fails atomic.Int32
	r := newReceiver(t, func(w http.ResponseWriter, q request) {
		if n := fails.Add(1); n%10 == 0 { // retries take their turn too
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	b.endpoint(r, func(e *registry.Endpoint) { e.MaxPerSecond, e.MaxInFlight = perSecond, 1 })
	free := newReceiver(t, ok)
	b.endpoint(free)
	b.fanout()
	for range 3 {
		b.dispatcher()
	}
	for i := range events {
		b.publish("default", fmt.Sprintf("evt-%d", i), "order.paid", `1`)
	}
	free.WaitFor(t, events)
	b.ledger.WaitFor(t, 2*events, ended)

	var at []time.Time
	for _, q := range r.Got() {
		at = append(at, q.at)
	}
	slices.SortFunc(at, time.Time.Compare)
	most := 0
	for i, begin := range at {
		n := 0
		for ; i+n < len(at) && at[i+n].Sub(begin) < time.Second; n++ {
		}
		most = max(most, n)
	}
	took := at[len(at)-1].Sub(at[0])
	t.Logf("%d requests in %s, at most %d in a second", len(at), took, most)
	// A turn may be used up to a second late, so a stall can bring two seconds' turns together, and never more.
	if most > 2*perSecond+1 {
		t.Errorf("%d requests came within a second, the limit is %d", most, perSecond)
	}
	if least := time.Duration(len(at)-1) * time.Second / perSecond; took < least-1200*time.Millisecond {
		t.Errorf("%d requests took %s; at %d a second they take %s", len(at), took, perSecond, least)
	} else if took > 6*least {
		t.Errorf("%d requests took %s: turns were wasted", len(at), took)
	}
}

func TestADeadlineEndsADeliveryThatWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r, func(e *registry.Endpoint) {
		e.MaxPerSecond, e.DeliverWithin = 0.1, 12*time.Second // 10 s of them are reserve
	})
	b.fanout()
	b.dispatcher()
	for i := range 5 {
		b.publish("default", fmt.Sprintf("evt-%d", i), "order.paid", `1`)
	}
	for _, dead := range b.ledger.WaitFor(t, 4, kind(record.DeliveryDeadLetter)) {
		if late := dead.At.Sub(dead.DeliverBy.Add(-10 * time.Second)); dead.Reason != "deadline_exceeded" || late < 0 ||
			late > 8*time.Second {
			t.Errorf("%s ended %s after its attempts had to, as %s", dead.EventID, late, dead.Reason)
		}
	}
	if n := len(r.Got()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
