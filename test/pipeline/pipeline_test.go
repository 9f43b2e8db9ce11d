package pipeline_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

func TestEventsPublishedTwiceAreDeliveredOnceToEachEndpoint(t *testing.T) {
	t.Parallel()
	const events = 300
	b := newBench(t)
	receivers := []*receiver{newReceiver(t, ok), newReceiver(t, ok), newReceiver(t, ok)}
	byEndpoint := map[string]*receiver{}
	for _, r := range receivers {
		byEndpoint[b.endpoint(r).ID] = r
	}
	b.fanout()
	b.dispatcher()
	for round := range 2 {
		for i := range events {
			ack := b.publish("default", fmt.Sprintf("evt-%d", i), "order.paid", fmt.Sprintf(`{"n":%d}`, i))
			if ack.Duplicate != (round == 1) {
				t.Fatalf("round %d, event %d: duplicate is %v", round, i, ack.Duplicate)
			}
		}
	}
	b.ledger.WaitFor(t, 3*events, ended)

	digests := map[string]string{}
	for _, r := range b.ledger.Where(kind(record.Attempt)) {
		digests[r.EndpointID+"/"+r.EventID] = r.PayloadDigest
	}
	for endpoint, r := range byEndpoint {
		seen := map[string]bool{}
		for _, q := range r.Got() {
			if q.badSig != nil || q.attempt != 1 || seen[q.id] {
				t.Errorf("request %s: signature %v, attempt %d, seen before: %v", q.id, q.badSig, q.attempt, seen[q.id])
			}
			seen[q.id] = true
			if want := envelope.DigestHex(q.body); digests[endpoint+"/"+q.id] != want {
				t.Errorf("%s: the digest on record is %s, of the bytes received %s", q.id, digests[endpoint+"/"+q.id], want)
			}
		}
		if len(seen) != events {
			t.Errorf("%s got %d events, want %d", endpoint, len(seen), events)
		}
	}
	for k, want := range map[record.Kind]int{record.EventAccepted: events, record.DeliveryOwed: 3 * events,
		record.Attempt: 3 * events} {
		if got := len(b.ledger.Where(kind(k))); got != want {
			t.Errorf("%d records of kind %s, want %d", got, k, want)
		}
	}
}

func TestAReceiverThatFailsTwiceSeesAttemptsOneTwoThreeOnSchedule(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var n atomic.Int32
	r := newReceiver(t, func(w http.ResponseWriter, _ request) {
		if n.Add(1) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	delays := quick(8, 0)
	delays.Delays = []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second}
	b.endpoint(r, func(e *registry.Endpoint) { e.Policy = delays })
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "lab_result.critical", `{}`)
	got := r.WaitFor(t, 3)
	attempts := b.ledger.WaitFor(t, 3, kind(record.Attempt))
	for i, q := range got {
		if q.attempt != i+1 || q.id != "evt-1" || q.badSig != nil {
			t.Errorf("request %d: attempt %d, id %s, signature %v", i, q.attempt, q.id, q.badSig)
		}
	}
	for i, r := range attempts[:2] {
		if r.Attempt != i+1 || r.Decision != "retry" || r.Status != http.StatusBadGateway {
			t.Errorf("record %d: %+v", i, r)
		}
		// Not before it is due, and after the schedule's delay.
		next := attempts[i+1]
		if next.StartedAt.Before(r.NextAttemptAt) {
			t.Errorf("attempt %d started at %s, before it was due at %s", i+2, next.StartedAt, r.NextAttemptAt)
		}
		ended := r.StartedAt.Add(time.Duration(r.DurationUS) * time.Microsecond)
		if d := r.NextAttemptAt.Sub(ended); d < delays.Delays[i] || d > delays.Delays[i]+time.Second {
			t.Errorf("attempt %d is due %s after attempt %d ended, want %s", i+2, d, i+1, delays.Delays[i])
		}
	}
	if last := attempts[2]; last.Class != "delivered" || last.Decision != "delivered" || last.Attempt != 3 {
		t.Errorf("the last record is %+v", last)
	}
}

func TestHowDeliveriesEnd(t *testing.T) {
	t.Parallel()
	hang := func(w http.ResponseWriter, r request) {
		<-time.After(5 * time.Second) // answers long after the endpoint's timeout
		w.WriteHeader(http.StatusOK)
	}
	for _, c := range []struct {
		name     string
		answer   func(http.ResponseWriter, request)
		alter    func(*registry.Endpoint, *receiver)
		requests int
		outcome  string // of the last attempt
		reason   string
	}{
		{"a receiver that answers 422 sees one request", status(422), nil, 1, "status_terminal", "permanently_rejected"},
		{"a receiver that answers 401 sees one request", status(401), nil, 1, "status_terminal", "signature_rejected"},
		{"a receiver that redirects is not followed", status(302), nil, 1, "redirect", "permanently_rejected"},
		{"a receiver that always answers 503 sees eight requests", status(503), nil, 8, "status_retryable",
			"attempts_exhausted"},
		{"a receiver that hangs is cut at the timeout and retried", hang,
			func(e *registry.Endpoint, _ *receiver) {
				e.Timeout, e.Policy = 100*time.Millisecond, quick(2, 10*time.Millisecond)
			}, 2, "timeout", "endpoint_unreachable"},
		{"a receiver that is down all along is unreachable after eight attempts", ok,
			func(_ *registry.Endpoint, r *receiver) { r.Close() }, 0, "connection_refused", "endpoint_unreachable"},
		{"a private address is never called", ok,
			func(e *registry.Endpoint, _ *receiver) { e.URL = "http://169.254.169.254/latest" }, 0, "address_blocked",
			"address_blocked"},
		{"a deadline in the past ends it at once", ok,
			func(e *registry.Endpoint, _ *receiver) { e.DeliverWithin = time.Nanosecond }, 0, "", "deadline_exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := newReceiver(t, c.answer)
			e := b.endpoint(r, func(e *registry.Endpoint) {
				if c.alter != nil {
					c.alter(e, r)
				}
			})
			b.fanout()
			b.dispatcher()
			b.publish("default", "evt-1", "order.paid", `null`)
			dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
			if dead[0].Reason != c.reason || dead[0].EndpointID != e.ID || dead[0].EventID != "evt-1" {
				t.Errorf("dead letter %+v, want the reason %s", dead[0], c.reason)
			}
			attempts := b.ledger.Where(kind(record.Attempt))
			if c.requests > 0 && len(attempts) != c.requests || len(r.Got()) != c.requests {
				t.Errorf("%d attempts on record, %d requests received, want %d", len(attempts), len(r.Got()), c.requests)
			}
			if c.reason == "endpoint_unreachable" && c.requests == 0 && len(attempts) != 8 {
				t.Errorf("%d attempts, want eight", len(attempts))
			}
			for i, a := range attempts {
				if a.Attempt != i+1 {
					t.Errorf("record %d has number %d", i, a.Attempt)
				}
			}
			if c.outcome != "" && attempts[len(attempts)-1].Outcome != c.outcome {
				t.Errorf("the last outcome is %s, want %s", attempts[len(attempts)-1].Outcome, c.outcome)
			}
		})
	}
}

func TestAnEndpointThatIsGoneIsDisabled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, status(http.StatusGone))
	e := b.endpoint(r)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
	if dead[0].Reason != "endpoint_gone" {
		t.Errorf("reason %s", dead[0].Reason)
	}
	changes := b.ledger.WaitFor(t, 2, kind(record.EndpointChanged))
	if last := changes[1]; last.Action != "disabled" || last.EndpointRevision != 2 || last.EndpointID != e.ID ||
		last.Actor != registry.ActorWaybill {
		t.Errorf("the change on record is %+v", last)
	}
	notice := b.ledger.WaitFor(t, 1, kind(record.OperatorAction))[0]
	if notice.Action != "endpoint.disabled" || notice.Reason != "endpoint_gone" || notice.EndpointID != e.ID ||
		notice.Detail == "" {
		t.Errorf("the notice on record is %+v", notice)
	}
	b.publish("default", "evt-2", "order.paid", `2`)
	if got := b.ledger.WaitFor(t, 1, kind(record.EventUnmatched)); got[0].EventID != "evt-2" {
		t.Errorf("%+v", got[0])
	}
}

func TestDataArrivesByteForByte(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/*.json")
	must(t, err)
	if len(files) < 10 {
		t.Fatalf("testdata has %d events", len(files))
	}
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	want := map[string][]byte{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		must(t, err)
		e, err := envelope.Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		want[e.ID] = slices.Clone(e.Data)
		b.publishRaw(streams.EventSubject("default", e.Type), e.ID, string(raw))
	}
	for _, q := range r.WaitFor(t, len(want)) {
		data := want[q.id]
		if data == nil || !strings.HasSuffix(string(q.body), `,"data":`+string(data)+"}") || q.badSig != nil {
			t.Errorf("%s: the data did not arrive as it was published (signature: %v)", q.id, q.badSig)
		}
	}
}

func TestTenantsNeverSeeEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ours, theirs := newReceiver(t, ok), newReceiver(t, ok)
	b.endpoint(ours, func(e *registry.Endpoint) { e.Tenant = "ours" })
	b.endpoint(theirs, func(e *registry.Endpoint) { e.Tenant = "theirs" })
	b.fanout()
	b.dispatcher()
	b.publish("ours", "evt-1", "order.paid", `1`)
	b.publish("theirs", "evt-2", "order.paid", `2`)
	b.publish("nobody", "evt-3", "order.paid", `3`)
	b.ledger.WaitFor(t, 2, ended)
	b.ledger.WaitFor(t, 1, kind(record.EventUnmatched))
	if a, z := ours.Got(), theirs.Got(); len(a) != 1 || a[0].id != "evt-1" || len(z) != 1 || z[0].id != "evt-2" {
		t.Errorf("ours got %v, theirs got %v", a, z)
	}
}

func TestAnInvalidEventIsOnRecordAndWedgesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	valid := `{"id":"evt-2","type":"a.b","timestamp":"2026-08-19T15:10:00Z","data":1}`
	for _, c := range []struct{ subject, msgID, body, reason string }{
		{"events.default.a.b", "x1", `not json`, "invalid_event"},
		{"events.default.a.b", "x2", `{"id":"x2","type":"a.b","timestamp":"yesterday","data":1}`, "invalid_event"},
		{"events.default.a.c", "evt-2", valid, "subject_mismatch"},
		{"events.default.a.b", "evt-9", valid, "id_mismatch"},
		{"events.default", "x5", valid, "subject_mismatch"},
		{"events.default.a.b", "x6", `{"id":"x6","type":"a.b","timestamp":"2026-08-19T15:10:00Z","data":"` +
			strings.Repeat("x", envelope.MaxEventBytes) + `"}`, "payload_too_large"},
	} {
		if _, err := b.tryPublish(c.subject, c.msgID, c.body); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: its producer is told %v", c.reason, err)
		}
		got := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return r.Kind == record.EventRejected && r.Reason == c.reason && r.NATSSubject == c.subject
		})
		if last := got[len(got)-1]; last.Detail == "" || last.NATSSubject != c.subject {
			t.Errorf("%s: the record says too little: %+v", c.reason, last)
		}
	}
	b.ledger.WaitFor(t, 6, kind(record.EventRejected))
	// What was refused holds no id.
	b.publishRaw("events.default.a.b", "x1", strings.Replace(valid, "evt-2", "x1", 1))
	b.ledger.WaitFor(t, 1, ended)
	// Without the header it is delivered, and the record says that it had none.
	b.publishRaw("events.default.a.b", "", strings.Replace(valid, "evt-2", "evt-3", 1))
	b.ledger.WaitFor(t, 2, ended)
	if got := b.ledger.Where(kind(record.EventAccepted)); len(got) != 2 || got[0].NoMsgID || !got[1].NoMsgID ||
		got[1].EventID != "evt-3" {
		t.Errorf("accepted: %+v", got)
	}
}

func TestAnEndpointAtItsCapGetsNoMoreAtOnceAndDelaysNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var now, most atomic.Int32
	release := make(chan struct{})
	slow := newReceiver(t, func(w http.ResponseWriter, _ request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-release
		now.Add(-1)
	})
	healthy := newReceiver(t, ok)
	b.endpoint(slow, func(e *registry.Endpoint) {
		e.MaxInFlight, e.Timeout = 3,
			20*time.Second
		e.Types = []string{"slow"}
	})
	b.endpoint(healthy, func(e *registry.Endpoint) { e.Types = []string{"healthy"} })
	b.fanout()
	b.dispatcher(func(o *dispatcher.Options) { o.Concurrency = 16 })
	for i := range 60 {
		b.publish("default", fmt.Sprintf("slow-%d", i), "slow", `{}`)
	}
	slow.WaitFor(t, 3)
	for i := range 60 {
		b.publish("default", fmt.Sprintf("healthy-%d", i), "healthy", `{}`)
	}
	healthy.WaitFor(t, 60) // while the slow one holds all it may
	close(release)
	b.ledger.WaitFor(t, 120, ended)
	if most.Load() != 3 {
		t.Errorf("%d requests at once, want 3", most.Load())
	}
}

func TestAChangeOfAnEndpointTakesEffectAtItsNextAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := newReceiver(t, status(500))
	second := newReceiver(t, ok)
	e := b.endpoint(first, func(e *registry.Endpoint) { e.Policy = quick(8, 300*time.Millisecond) })
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	first.WaitFor(t, 1)
	_, err := b.store.Update(t.Context(), e.ID, "test", "updated", "moved", func(e *registry.Endpoint) error {
		e.URL, e.Secrets = second.URL, []registry.Secret{b.seal(*e, second.Secret)}
		return nil
	})
	must(t, err)
	got := second.WaitFor(t, 1)
	if got[0].attempt != 2 || got[0].badSig != nil || len(first.Got()) != 1 {
		t.Errorf("attempt %d, signature %v; the old address got %d requests", got[0].attempt, got[0].badSig, len(first.Got()))
	}
	attempts := b.ledger.WaitFor(t, 2, kind(record.Attempt))
	if attempts[0].EndpointRevision != 1 || attempts[1].EndpointRevision != 2 {
		t.Errorf("revisions on record: %d, %d", attempts[0].EndpointRevision, attempts[1].EndpointRevision)
	}
}

func TestADeliveryToADisabledOrDeletedEndpointEndsWithAReason(t *testing.T) {
	t.Parallel()
	for state, reason := range map[registry.State]string{registry.Disabled: "endpoint_disabled",
		registry.Deleted: "endpoint_deleted"} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := newReceiver(t, status(500))
			e := b.endpoint(r, func(e *registry.Endpoint) { e.Policy = quick(8, 300*time.Millisecond) })
			b.fanout()
			b.dispatcher()
			b.publish("default", "evt-1", "order.paid", `1`)
			r.WaitFor(t, 1)
			_, err := b.store.Update(t.Context(), e.ID, "test", string(state), "",
				func(e *registry.Endpoint) error { e.State = state; return nil })
			must(t, err)
			dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
			if dead[0].Reason != reason || len(r.Got()) != 1 || dead[0].Attempts != 1 {
				t.Errorf("%+v after %d requests", dead[0], len(r.Got()))
			}
		})
	}
}
