//lint:long every case breaks the same pipeline

package pipeline_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// crash is what a dispatcher leaves behind that dies at some line of an attempt.
type crash struct {
	b        *bench
	task     delivery.Delivery
	attempt  string // id
	by       string // the dispatcher that died
	lease    time.Duration
	replayed string
}

func newCrash(b *bench, e registry.Endpoint) *crash {
	return &crash{b: b, by: "crashed", attempt: ids.New(ids.Attempt, time.Now()), lease: -time.Second,
		task: delivery.Delivery{EventID: "evt-1", EndpointID: e.ID, Tenant: "default", Type: "order.paid", EventSeq: 1,
			OwedAt: time.Now(),
			Event:  []byte(`{"id":"evt-1","type":"order.paid","timestamp":"2026-08-19T15:10:00Z","data":1}`)}}
}

func (c *crash) owe() {
	_, err := c.b.js.PublishMsg(c.b.t.Context(), c.task.First(1))
	must(c.b.t, err)
}

// claim leaves the claim of attempt number n.
func (c *crash) claim(n int) {
	data, err := json.Marshal(map[string]any{"attempt_id": c.attempt, "dispatcher": c.by, "boot": "an earlier run",
		"started_at": time.Now(), "lease_until": time.Now().Add(c.lease), "replay": c.replayed, "endpoint_revision": 1,
		"url": "http://x/"})
	must(c.b.t, err)
	_, err = c.b.js.PublishMsg(c.b.t.Context(), &nats.Msg{Subject: streams.ClaimSubject(c.task.EndpointID),
		Header: nats.Header{nats.MsgIdHdr: {streams.AttemptID("evt-1", c.task.EndpointID, n)}}, Data: data})
	must(c.b.t, err)
}

// record leaves the attempt's record, with what was decided.
func (c *crash) record(n int, alter func(*record.Record)) {
	r := record.Record{ID: c.attempt, Kind: record.Attempt, At: time.Now(), Tenant: "default", EventID: "evt-1",
		EndpointID: c.task.EndpointID,
		Attempt:    n, StartedAt: time.Now()}
	alter(&r)
	m, err := r.Message()
	must(c.b.t, err)
	_, err = c.b.js.PublishMsg(c.b.t.Context(), m)
	must(c.b.t, err)
}

// settled waits until no queue holds the delivery.
func (b *bench) settled() {
	b.t.Helper()
	deadline := time.After(patience)
	for {
		left := uint64(0)
		for _, name := range []string{streams.Deliveries, streams.Retry} {
			s, err := b.js.Stream(b.t.Context(), name)
			must(b.t, err)
			left += s.CachedInfo().State.Msgs
		}
		if left == 0 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			b.t.Fatalf("%d messages are left in the queues", left)
		}
	}
}

func attemptsOf(b *bench) []record.Record { return b.ledger.Where(kind(record.Attempt)) }

func TestADispatcherThatDiedDuringAnAttemptLeavesANumberedGap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	c.owe()
	c.claim(1)
	b.dispatcher()
	got := r.WaitFor(t, 1)
	b.settled()
	a := b.ledger.WaitFor(t, 2, kind(record.Attempt))
	if a[0].ID != c.attempt || a[0].Attempt != 1 || a[0].Outcome != "unknown" || a[0].Dispatcher != "crashed" ||
		a[0].Decision != "retry" {
		t.Errorf("the gap is %+v", a[0])
	}
	if len(a) != 2 || a[1].Attempt != 2 || a[1].Class != "delivered" || got[0].attempt != 2 {
		t.Errorf("what follows is %+v; the receiver saw attempt %d", a[1:], got[0].attempt)
	}
}

func TestADispatcherThatDiedAfterTheRecordMakesNoSecondRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	c.owe()
	c.claim(1)
	c.record(1, func(r *record.Record) {
		r.Outcome, r.Class, r.Decision, r.Status = "delivered", "delivered", "delivered", 200
	})
	b.dispatcher()
	b.settled()
	if a := attemptsOf(b); len(a) != 1 || len(r.Got()) != 0 {
		t.Errorf("%d attempts on record, %d requests", len(a), len(r.Got()))
	}
}

func TestADispatcherThatDiedBeforeTheRetryWasStoredHasItStored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	c.owe()
	c.claim(1)
	due := time.Now().Add(700 * time.Millisecond)
	c.record(1, func(r *record.Record) {
		r.Outcome, r.Class, r.Decision, r.Status, r.NextAttemptAt = "status_retryable", "retryable", "retry", 503, due
	})
	b.dispatcher()
	got := r.WaitFor(t, 1)
	b.settled()
	if a := attemptsOf(b); len(a) != 2 || got[0].attempt != 2 || got[0].at.Before(due) {
		t.Errorf("%d attempts on record; attempt %d came at %s, due at %s", len(a), got[0].attempt, got[0].at, due)
	}
}

func TestADispatcherThatDiedBeforeTheDeadLetterHasItOnRecordOnce(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("the dead letter was stored: %v", !before), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := newReceiver(t, ok)
			c := newCrash(b, b.endpoint(r))
			c.owe()
			c.claim(1)
			c.record(1, func(r *record.Record) {
				r.Outcome, r.Class, r.Decision, r.Status, r.Reason = "status_terminal", "terminal", "dead_letter", 422,
					"permanently_rejected"
			})
			if !before {
				dead := record.Record{ID: record.EndID(record.DeliveryDeadLetter, "evt-1", c.task.EndpointID, ""),
					Kind: record.DeliveryDeadLetter,
					At:   time.Now(), Tenant: "default", EventID: "evt-1", EndpointID: c.task.EndpointID,
					Reason: "permanently_rejected"}
				m, err := dead.Message()
				must(t, err)
				_, err = b.js.PublishMsg(t.Context(), m)
				must(t, err)
			}
			b.dispatcher()
			b.settled()
			if dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter)); len(dead) != 1 ||
				dead[0].Reason != "permanently_rejected" || len(r.Got()) != 0 {
				t.Errorf("%d dead letters, %d requests", len(dead), len(r.Got()))
			}
		})
	}
}

func TestAnAttemptThatMayStillBeRunningElsewhereIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	c.lease = time.Second
	until := time.Now().Add(c.lease)
	c.owe()
	c.claim(1)
	b.dispatcher()
	got := r.WaitFor(t, 1)
	if got[0].at.Before(until) || got[0].attempt != 2 {
		t.Errorf("attempt %d came %s before the lease of the first one was over", got[0].attempt, until.Sub(got[0].at))
	}
}

func TestADispatcherKnowsThatItsOwnEarlierRunIsDead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	c.lease = time.Hour
	c.owe()
	c.claim(1)
	b.dispatcher(func(o *dispatcher.Options) { o.Name, o.Exclusive = "crashed", true })
	if got := r.WaitFor(t, 1); got[0].attempt != 2 {
		t.Errorf("attempt %d", got[0].attempt)
	}
}

func TestADeliveryPublishedTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	b.dispatcher()
	c.owe()
	r.WaitFor(t, 1)
	b.settled()
	// A work queue forgets the ids of what was consumed when the server restarts.
	b.server.Kill()
	b.server.Restart()
	again := c.task.First(1)
	deadline := time.Now().Add(patience)
	for {
		if _, err := b.js.PublishMsg(t.Context(), again); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	b.settled()
	if a := attemptsOf(b); len(a) != 1 || len(r.Got()) != 1 {
		t.Errorf("%d attempts on record, %d requests", len(a), len(r.Got()))
	}
}

func TestWhatTheStreamsHaveForgottenIsFoundAgain(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("the attempt is on record: %v", recorded), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := newReceiver(t, ok)
			shortMemory(b, streams.Claims, streams.Ledger)
			c := newCrash(b, b.endpoint(r))
			c.owe()
			b.takeAndLose()
			c.claim(1)
			if recorded {
				c.record(1, func(r *record.Record) { r.Outcome, r.Class, r.Decision = "delivered", "delivered", "delivered" })
			}
			b.forget(streams.Claims, streams.ClaimSubject(ids.New(ids.Endpoint, time.Now())))
			b.forget(streams.Ledger, "ledger.probe.default")
			b.dispatcher()
			want := map[bool]int{false: 2, true: 1}[recorded]
			b.settled()
			a := b.ledger.WaitFor(t, want, kind(record.Attempt))
			if len(a) != want || len(r.Got()) != want-1 {
				t.Errorf("%d attempts on record, %d requests; want %d and %d", len(a), len(r.Got()), want, want-1)
			}
		})
	}
}

// shortMemory makes streams forget message ids after 100 ms.
func shortMemory(b *bench, names ...string) {
	for _, name := range names {
		s, err := b.js.Stream(b.t.Context(), name)
		must(b.t, err)
		config := s.CachedInfo().Config
		config.Duplicates = 100 * time.Millisecond
		_, err = b.js.UpdateStream(b.t.Context(), config)
		must(b.t, err)
	}
}

// forget waits until a stream has forgotten the ids that it knows now.
func (b *bench) forget(stream, subject string) {
	b.t.Helper()
	id, deadline := ids.New("probe_", time.Now()), time.Now().Add(patience)
	for first := true; time.Now().Before(deadline); first = false {
		ack, err := b.js.Publish(b.t.Context(), subject, []byte(probe), jetstream.WithMsgID(id))
		must(b.t, err)
		if !first && !ack.Duplicate {
			return
		}
	}
	b.t.Fatalf("%s does not forget", stream)
}

// probe is a record of no kind that counts.
const probe = `{"v":1,"id":"x","kind":"probe","at":"2026-01-01T00:00:00Z","tenant":"x"}`

// takeAndLose takes a delivery as a dispatcher does that dies with it in hand.
func (b *bench) takeAndLose() {
	c, err := b.js.Consumer(b.t.Context(), streams.Deliveries, streams.DispatchConsumer(0))
	must(b.t, err)
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	must(b.t, err)
	must(b.t, m.NakWithDelay(300*time.Millisecond))
}

func TestReplaysAtOnceTakeDifferentNumbers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	c := newCrash(b, b.endpoint(r))
	b.dispatcher()
	c.owe()
	r.WaitFor(t, 1)
	for range 5 { // each believes that one attempt was made
		c.task.Replay, c.task.Attempts = ids.New(ids.Replay, time.Now()), 1
		c.owe()
	}
	got := r.WaitFor(t, 6)
	b.settled()
	seen := map[int]bool{}
	for _, q := range got {
		if seen[q.attempt] || q.attempt < 1 || q.attempt > 6 || q.id != "evt-1" {
			t.Errorf("attempt %d of %s came twice, or is none", q.attempt, q.id)
		}
		seen[q.attempt] = true
	}
}

func TestAStopCutsAnAttemptShortAndPutsItOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hanging := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, q request) {
		if q.attempt == 1 {
			<-hanging
		}
	})
	t.Cleanup(func() { close(hanging) })
	e := b.endpoint(r, func(e *registry.Endpoint) { e.Timeout = registry.MaxTimeout })
	d := b.dispatcher(func(o *dispatcher.Options) { o.DrainTimeout = 100 * time.Millisecond })
	c := newCrash(b, e)
	c.owe()
	r.WaitFor(t, 1)
	start := time.Now()
	d.Stop(t)
	if took := time.Since(start); took > registry.MaxTimeout-5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	a := b.ledger.WaitFor(t, 1, kind(record.Attempt))
	if a[0].Outcome != "interrupted" || a[0].Decision != "retry" {
		t.Errorf("on record: %+v", a[0])
	}
	b.dispatcher()
	if got := r.WaitFor(t, 2); got[1].attempt != 2 {
		t.Errorf("attempt %d", got[1].attempt)
	}
}

func TestAServerThatRestartsWedgesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	for i := range 50 {
		b.publish("default", fmt.Sprintf("before-%d", i), "order.paid", `1`)
	}
	b.server.Kill()
	b.server.Restart()
	for i := range 50 {
		id, deadline := fmt.Sprintf("after-%d", i), time.Now().Add(patience)
		for {
			_, err := b.js.Publish(t.Context(), "events.default.order.paid",
				fmt.Appendf(nil, `{"id":%q,"type":"order.paid","timestamp":"2026-08-19T15:10:00Z","data":1}`, id),
				jetstream.WithMsgID(id))
			if err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	b.settledEvents(100)
	seen := map[string]int{}
	for _, q := range r.Got() {
		seen[fmt.Sprint(q.id, "/", q.attempt)]++
	}
	for what, n := range seen {
		if n > 1 {
			t.Errorf("%s was sent %d times under one number", what, n)
		}
	}
}

// settledEvents waits until n deliveries have ended, by the ledger as it is
// stored: the follower may have lost its place when the server restarted.
func (b *bench) settledEvents(n int) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ends := map[string]bool{}
		for _, r := range b.storedLedger() {
			if ended(r) {
				ends[r.EventID+"/"+r.EndpointID] = true
			}
		}
		if len(ends) >= n {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%d of %d deliveries have ended", len(ends), n)
		}
		<-time.After(200 * time.Millisecond) // each look leaves a consumer behind for a while, and their number is limited
	}
}

// storedLedger reads LEDGER from its start.
func (b *bench) storedLedger() []record.Record {
	s, err := b.js.Stream(b.t.Context(), streams.Ledger)
	must(b.t, err)
	c, err := b.js.OrderedConsumer(b.t.Context(), streams.Ledger, jetstream.OrderedConsumerConfig{})
	must(b.t, err)
	var out []record.Record
	for range s.CachedInfo().State.Msgs {
		m, err := c.Next(jetstream.FetchMaxWait(patience))
		must(b.t, err)
		r, err := record.Decode(m.Data())
		must(b.t, err)
		out = append(out, r)
	}
	return out
}
