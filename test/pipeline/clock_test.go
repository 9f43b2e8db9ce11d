package pipeline_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
)

// A retry is scheduled by one dispatcher and taken by another. Whichever clock
// is wrong, and whichever way, it is made when it is due; and a deadline that the
// server's clock started is not over because ours is ahead.
func TestClocksThatAreApartMakeNothingEarlyAndGiveNothingUp(t *testing.T) {
	t.Parallel()
	const delay = 3 * time.Second
	for name, skew := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.fanout()
			first := make(chan struct{}, 10)
			r := newReceiver(t, func(w http.ResponseWriter, got request) {
				if got.attempt == 1 {
					w.WriteHeader(http.StatusInternalServerError)
					first <- struct{}{}
				}
			})
			b.endpoint(r, func(e *registry.Endpoint) {
				e.Policy = &retry.Policy{Delays: []time.Duration{delay}}
				e.DeliverWithin = 10 * time.Minute
			})
			right := b.dispatcher(func(o *dispatcher.Options) { o.Name = "right" })
			b.publish("default", "skewed", "order.paid", "1")
			<-first
			b.ledger.WaitFor(t, 1, kind(record.Attempt))
			right.Stop(t) // the retry waits; the other one takes it
			b.dispatcher(func(o *dispatcher.Options) {
				o.Name = "wrong"
				o.Now = func() time.Time { return time.Now().Add(skew) }
			})
			got := r.WaitFor(t, 2)
			if apart := got[1].at.Sub(got[0].at); apart < delay || apart > delay+20*time.Second {
				t.Errorf("the second attempt came %s after the first, due after %s", apart, delay)
			}
			end := b.ledger.WaitFor(t, 1, ended)[0]
			if end.Kind != record.Attempt || end.Dispatcher != "wrong" {
				t.Errorf("ended with %s by %s: %s", end.Kind, end.Dispatcher, end.Reason)
			}
		})
	}
}

// A clock that is set back while a retry waits, or while a claim is held against
// others, makes nobody wait for longer than was decided.
func TestAClockThatIsSetBackDelaysNoRetry(t *testing.T) {
	t.Parallel()
	const delay = 3 * time.Second
	b := newBench(t)
	b.fanout()
	var skew atomic.Int64
	r := newReceiver(t, func(w http.ResponseWriter, got request) {
		if got.attempt == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	b.endpoint(r, func(e *registry.Endpoint) {
		e.Policy = &retry.Policy{Delays: []time.Duration{delay}}
		e.MaxPerSecond = 50
	})
	b.dispatcher(func(o *dispatcher.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(skew.Load())).Round(0) }
	})
	b.publish("default", "set-back", "order.paid", "1")
	b.ledger.WaitFor(t, 1, kind(record.Attempt))
	skew.Store(int64(-time.Hour))
	got := r.WaitFor(t, 2)
	if apart := got[1].at.Sub(got[0].at); apart < delay {
		t.Errorf("the second attempt came %s after the first, due after %s", apart, delay)
	}
	b.settled()
}
