package pipeline_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// set changes an endpoint's state, as an operator does.
func (b *bench) set(e registry.Endpoint, state registry.State) {
	b.t.Helper()
	_, err := b.store.Update(b.t.Context(), e.ID, "test", string(state), "",
		func(e *registry.Endpoint) error { e.State = state; return nil })
	must(b.t, err)
}

// What a dispatcher left behind is settled before a delivery is given up, also
// when nothing more may be sent to the endpoint.
func TestADeliveryIsNotGivenUpOverAnAttemptThatIsNotSettled(t *testing.T) {
	t.Parallel()
	for _, state := range []registry.State{registry.Disabled, registry.Deleted} {
		for _, delivered := range []bool{false, true} {
			t.Run(fmt.Sprintf("the endpoint is %s, the attempt on record as delivered: %v", state, delivered),
				func(t *testing.T) {
					t.Parallel()
					b := newBench(t)
					r := newReceiver(t, ok)
					e := b.endpoint(r)
					c := newCrash(b, e)
					c.owe()
					c.claim(1)
					if delivered {
						c.record(1, func(r *record.Record) {
							r.Outcome, r.Class, r.Decision, r.Status = "delivered", "delivered", "delivered", 204
						})
					}
					b.set(e, state)
					b.dispatcher()
					b.settled()
					a := b.ledger.WaitFor(t, 1, kind(record.Attempt))
					dead := b.ledger.Where(kind(record.DeliveryDeadLetter))
					if len(r.Got()) != 0 || len(a) != 1 || a[0].ID != c.attempt {
						t.Errorf("%d requests; the attempts on record are %+v", len(r.Got()), a)
					}
					if delivered && len(dead) != 0 {
						t.Errorf("it was delivered, and is a dead letter: %+v", dead[0])
					}
					if !delivered {
						dead = b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
						if a[0].Outcome != "unknown" || len(dead) != 1 || dead[0].Attempts != 1 ||
							dead[0].Reason != "endpoint_"+string(state) {
							t.Errorf("the attempt is %s, the dead letters are %+v", a[0].Outcome, dead)
						}
					}
				})
		}
	}
}

func TestADeliveryThatWasGivenUpStaysSoAndLeavesNoHoleInTheNumbers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	e := b.endpoint(r)
	c := newCrash(b, e)
	b.set(e, registry.Disabled)
	b.dispatcher()
	c.owe()
	b.settled()
	b.set(e, registry.Enabled)
	// The delivery comes again: whoever gave it up died before it said so to its queue.
	b.server.Kill()
	b.server.Restart()
	for deadline := time.Now().Add(patience); ; {
		if _, err := b.js.PublishMsg(t.Context(), c.task.First(1)); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	b.settled()
	if n := len(r.Got()); n != 0 {
		t.Errorf("%d requests after the end", n)
	}
	// Two replays: their attempts are 1 and 2, for none was made before.
	for range 2 {
		c.task.Replay = ids.New(ids.Replay, time.Now())
		c.owe()
	}
	got := r.WaitFor(t, 2)
	b.settled()
	if a := b.ledger.WaitFor(t, 2, kind(record.Attempt)); got[0].attempt+got[1].attempt != 3 ||
		got[0].attempt == got[1].attempt || len(a) != 2 {
		t.Errorf("requests %d and %d, %d attempts on record", got[0].attempt, got[1].attempt, len(a))
	}
	if dead := b.ledger.Where(kind(record.DeliveryDeadLetter)); len(dead) != 1 {
		t.Errorf("%d dead letters", len(dead))
	}
}

// A dispatcher that was away so long that its attempt counts as unknown carries
// out what is on record, not what it has seen since: else the delivery would
// end twice.
func TestADispatcherThatWasTakenForDeadDecidesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shortAckWait(b)
	asked, answer := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, q request) {
		if q.attempt > 1 {
			return
		}
		close(asked)
		<-answer
		w.WriteHeader(http.StatusUnprocessableEntity)
	})
	e := b.endpoint(r, func(e *registry.Endpoint) { e.Timeout = 30 * time.Second })
	c := newCrash(b, e)
	b.dispatcher()
	c.owe()
	<-asked
	s, err := b.js.Stream(t.Context(), streams.Claims)
	must(t, err)
	m, err := s.GetMsg(t.Context(), 1)
	must(t, err)
	var claimed struct {
		AttemptID string `json:"attempt_id"`
	}
	must(t, json.Unmarshal(m.Data, &claimed))
	c.attempt = claimed.AttemptID
	c.record(1, func(r *record.Record) {
		r.Outcome, r.Class, r.Decision, r.NextAttemptAt = "unknown", "retryable", "retry", time.Now()
	})
	close(answer)
	r.WaitFor(t, 2)
	b.settled()
	a := b.ledger.WaitFor(t, 2, kind(record.Attempt))
	if len(a) != 2 || a[0].Outcome != "unknown" || a[1].Attempt != 2 || a[1].Class != "delivered" {
		t.Errorf("on record: %+v", a)
	}
	if dead := b.ledger.Where(kind(record.DeliveryDeadLetter)); len(dead) != 0 {
		t.Errorf("it was delivered, and is a dead letter: %+v", dead[0])
	}
}

// shortAckWait brings what a dispatcher leaves back soon.
func shortAckWait(b *bench) {
	c, err := b.js.Consumer(b.t.Context(), streams.Deliveries, streams.DispatchConsumer(0))
	must(b.t, err)
	config := c.CachedInfo().Config
	config.AckWait = 500 * time.Millisecond
	_, err = b.js.UpdateConsumer(b.t.Context(), streams.Deliveries, config)
	must(b.t, err)
}

// What is true when a request starts counts, not what was true when its
// delivery began to wait for a place at the endpoint.
func TestADeliveryThatWaitedForItsPlaceIsNotSentToAnEndpointDisabledMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, request) { asked <- struct{}{}; <-answer })
	e := b.endpoint(r, func(e *registry.Endpoint) { e.MaxInFlight = 1; e.Timeout = 20 * time.Second })
	var view *registry.View
	b.dispatcher(func(o *dispatcher.Options) { view = o.View })
	first, second := newCrash(b, e), newCrash(b, e)
	second.task.EventID = "evt-2"
	first.owe()
	<-asked
	second.owe()
	b.inHand(t, 2)
	b.set(e, registry.Disabled)
	for deadline := time.Now().Add(patience); ; {
		if now, ok := view.Get(e.ID); ok && now.State == registry.Disabled {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the dispatcher does not see the change")
		}
	}
	close(answer)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
	b.settled()
	if len(r.Got()) != 1 || len(dead) != 1 || dead[0].EventID != "evt-2" || dead[0].Reason != "endpoint_disabled" {
		t.Errorf("%d requests; dead letters: %+v", len(r.Got()), dead)
	}
}

// An endpoint that was enabled before a delivery came is called, also when the
// dispatcher has not heard of it yet: giving up is for good.
func TestADispatcherThatHasNotHeardThatAnEndpointIsEnabledAsksBeforeItGivesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	e := b.endpoint(r)
	b.set(e, registry.Disabled)
	var view *registry.View
	b.dispatcher(func(o *dispatcher.Options) { view = o.View })
	<-view.Ready()
	for n := range 30 { // the change and the delivery race each other to the dispatcher
		b.set(e, registry.Enabled)
		c := newCrash(b, e)
		c.task.EventID = fmt.Sprintf("evt-%d", n)
		c.owe()
		r.WaitFor(t, n+1)
		b.set(e, registry.Disabled)
	}
	b.settled()
	if dead := b.ledger.Where(kind(record.DeliveryDeadLetter)); len(dead) != 0 {
		t.Errorf("%d dead letters, the first: %+v", len(dead), dead[0])
	}
}

// inHand waits until a dispatcher has taken n first deliveries.
func (b *bench) inHand(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		c, err := b.js.Consumer(t.Context(), streams.Deliveries, streams.DispatchConsumer(0))
		must(t, err)
		if c.CachedInfo().NumAckPending == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d deliveries are not in hand", n)
		}
	}
}

// A delivery and its replay take numbers from one row. What the replay took long
// before the delivery's next attempt is due is taken, though the stream has
// forgotten the id, and nobody but the two of them was there.
func TestANumberThatAReplayTookLongAgoIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	during, proceed := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, q request) {
		if q.attempt == 1 {
			close(during)
			<-proceed
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	shortMemory(b, streams.Claims)
	c := newCrash(b, b.endpoint(r))
	c.replayed = "rpl_beside"
	b.dispatcher()
	c.owe()
	<-during
	c.claim(2)
	b.forget(streams.Claims, streams.ClaimSubject(ids.New(ids.Endpoint, time.Now())))
	close(proceed)
	if got := r.WaitFor(t, 2); got[1].attempt != 3 {
		t.Errorf("the attempt after the first has number %d", got[1].attempt)
	}
}
