package pipeline_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// counter reads a metric without labels.
func counter(t *testing.T, metrics *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// What stands in DELIVERIES may be from before anybody looked at its headers.
func TestPoisonedTraceHeadersAreDroppedAndTheEventsDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, func(http.ResponseWriter, request) {})
	e := b.endpoint(r)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	poison := [][2]string{{parent, "a\x01b"}, {"x\x7fy", "a=1"}, {parent, strings.Repeat("x", 60_000)},
		{strings.Repeat("x", 60_000), ""}}
	const events = 32
	for i := range events {
		id := fmt.Sprintf("evt-%d", i)
		m := delivery.Delivery{EventID: id, EndpointID: e.ID, Tenant: "default", Type: "order.paid", EventSeq: 1,
			OwedAt: time.Now(),
			Event: fmt.Appendf(nil, `{"id":%q,"type":"order.paid","timestamp":"2026-08-19T15:10:00.000Z","data":1}`,
				id)}.First(1)
		m.Header[streams.HeaderTraceparent], m.Header[streams.HeaderTracestate] = []string{poison[i%4][0]},
			[]string{poison[i%4][1]}
		_, err := b.js.PublishMsg(t.Context(), m)
		must(t, err)
	}
	metrics := prometheus.NewRegistry()
	b.dispatcher(func(o *dispatcher.Options) { o.Metrics = metrics })
	for _, a := range b.ledger.WaitFor(t, events, kind(record.Attempt)) {
		if a.Outcome != "delivered" {
			t.Errorf("%s attempt %d: %s %s", a.EventID, a.Attempt, a.Outcome, a.Error)
		}
	}
	for _, got := range r.WaitFor(t, events) {
		if state := got.header.Get("Tracestate"); state != "" {
			t.Errorf("a receiver got tracestate %.40q", state)
		}
		if p := got.header.Get("Traceparent"); p != "" && p != parent {
			t.Errorf("a receiver got traceparent %.40q", p)
		}
	}
	if n := counter(t, metrics, "waybill_breakers_open"); n != 0 {
		t.Errorf("%v breakers are open", n)
	}
}

// The operator's proxy is away: no receiver is to blame. Nothing is spent, nothing
// is held against the endpoint, and when the time is over the end says whose failure it was.
func TestAFailureOfOursIsHeldAgainstNoReceiverAndEndsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, func(http.ResponseWriter, request) {})
	e := b.endpoint(r, func(e *registry.Endpoint) {
		e.Policy = &retry.Policy{Name: "short", Base: 10 * time.Millisecond, Cap: 10 * time.Millisecond,
			Window: 4 * time.Second}
	})
	proxy, err := egress.ParseProxy("http://127.0.0.1:1", true)
	must(t, err)
	metrics := prometheus.NewRegistry()
	b.fanout()
	b.dispatcher(func(o *dispatcher.Options) { o.Metrics, o.Proxy = metrics, &proxy })
	const events = 25
	for i := range events {
		b.publish("default", fmt.Sprintf("evt-%d", i), "order.paid", `1`)
	}
	for _, dead := range b.ledger.WaitFor(t, events, kind(record.DeliveryDeadLetter)) {
		if dead.Reason != "internal_error" || !strings.Contains(dead.Detail, "the egress proxy refused the connection") &&
			!strings.Contains(dead.Detail, "before anything was sent") {
			t.Errorf("%s ended as %s: %s", dead.EventID, dead.Reason, dead.Detail)
		}
	}
	attempts := b.ledger.Where(kind(record.Attempt))
	for _, a := range attempts {
		if a.Outcome != "not_sent" || a.Class != "retryable" || !strings.HasPrefix(a.Error, "no request was made: ") {
			t.Errorf("%s attempt %d: %s %s", a.EventID, a.Attempt, a.Outcome, a.Error)
		}
	}
	if n := counter(t, metrics, "waybill_requests_not_made_total"); n == 0 || int(n) != len(attempts) {
		t.Errorf("the alarm counts %v of %d", n, len(attempts))
	}
	if n := counter(t, metrics, "waybill_breakers_open"); n != 0 {
		t.Errorf("%v breakers are open", n)
	}
	health, err := b.js.KeyValue(t.Context(), streams.EndpointHealthBucket)
	must(t, err)
	if entry, err := health.Get(t.Context(), e.ID); err == nil {
		t.Errorf("the endpoint's health says %s", entry.Value())
	}
	if n := len(r.Got()); n != 0 {
		t.Errorf("%d requests came", n)
	}
}

// A delivery that the breaker held was never attempted: its end must not say that
// the endpoint never answered. It answered others.
func TestADeliveryThatTheBreakerHeldEndsWithWhatTheEndpointCameTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ request) { w.WriteHeader(http.StatusServiceUnavailable) })
	b.endpoint(r, func(e *registry.Endpoint) { e.Policy = quick(400, 50*time.Millisecond) })
	b.fanout()
	metrics := prometheus.NewRegistry()
	b.dispatcher(func(o *dispatcher.Options) { o.Metrics = metrics })
	for i := range 20 {
		b.publish("default", fmt.Sprintf("evt-%d", i), "order.paid", `1`)
	}
	opened(t, metrics, 1)
	// Its event is stored, and its time over, before a dispatcher sees it.
	e := b.ledger.WaitFor(t, 1, kind(record.Attempt))[0].EndpointID
	held := delivery.Delivery{EventID: "held", EndpointID: e, Tenant: "default", Type: "order.paid", EventSeq: 1,
		OwedAt: time.Now().Add(-time.Hour),
		Event:  []byte(`{"id":"held","type":"order.paid","timestamp":"2026-08-19T15:10:00.000Z","data":1}`)}
	for n := range 40 { // one of them may be the next probe
		held.EventID = fmt.Sprintf("held-%d", n)
		publishTask(t, b, held.First(1))
	}
	dead := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
		return r.Kind == record.DeliveryDeadLetter &&
			r.Attempts == 0
	})[0]
	if dead.Reason != "endpoint_failing" || !strings.Contains(dead.Detail, "status 503") ||
		!strings.Contains(dead.Detail, "no attempt was made") {
		t.Errorf("%s ended as %s: %s", dead.EventID, dead.Reason, dead.Detail)
	}
}

func publishTask(t *testing.T, b *bench, m *nats.Msg) {
	t.Helper()
	_, err := b.js.PublishMsg(t.Context(), m)
	must(t, err)
}
