package pipeline_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
)

// opened waits until as many breakers are open, as the metrics say.
func opened(t *testing.T, metrics *prometheus.Registry, want int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		families, err := metrics.Gather()
		must(t, err)
		n := 0
		for _, f := range families {
			if f.GetName() == "waybill_breakers_open" {
				n = int(f.GetMetric()[0].GetGauge().GetValue())
			}
		}
		if n == want {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d breakers are open, want %d", n, want)
		}
	}
}

func TestAnEndpointThatKeepsFailingIsProbedOnlyAndLosesNoDelivery(t *testing.T) {
	t.Parallel()
	const events = 20
	b := newBench(t)
	var healthy atomic.Bool
	r := newReceiver(t, func(w http.ResponseWriter, _ request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	b.endpoint(r, func(e *registry.Endpoint) { e.Policy = quick(400, 50*time.Millisecond) })
	b.fanout()
	metrics := prometheus.NewRegistry()
	b.dispatcher(func(o *dispatcher.Options) { o.Metrics = metrics })
	for i := range events {
		b.publish("default", fmt.Sprintf("evt-%d", i), "order.paid", `1`)
	}
	opened(t, metrics, 1)

	// Requests that were under way when it opened may still come; then only probes do, and the second
	// is 2 s after the first.
	before := len(r.Got())
	for n := before + 1; ; n++ {
		got := r.WaitFor(t, n)
		if apart := got[n-1].at.Sub(got[n-2].at); apart >= 1900*time.Millisecond {
			break
		}
		if n > before+2*events {
			t.Fatalf("%d requests came to an endpoint whose breaker is open, and no pause between two", n-before)
		}
	}
	// The deadline of what comes now leaves two seconds for attempts: less than the pause after two probes.
	promised := time.Now().Add(12 * time.Second).UTC()
	b.publishRaw("events.default.order.paid", "late", fmt.Sprintf(`{"id":"late","type":"order.paid","timestamp":"2026-08-19T15:10:00Z","deliver_by":%q,"data":1}`,
		promised.Format(time.RFC3339Nano)))
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))[0]
	if late := dead.At.Sub(promised.Add(-10 * time.Second)); dead.EventID != "late" ||
		dead.Reason != "deadline_exceeded" || late < -50*time.Millisecond || late > 8*time.Second {
		t.Errorf("%s ended %s after its attempts had to, as %s", dead.EventID, late, dead.Reason)
	}

	healthy.Store(true)
	b.ledger.WaitFor(t, events+1, ended)
	opened(t, metrics, 0)
	if n := len(b.ledger.Where(kind(record.DeliveryDeadLetter))); n != 1 {
		t.Errorf("%d dead letters, want the one", n)
	}
}
