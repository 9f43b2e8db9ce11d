package pipeline_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt/webhook"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// nameserver answers every question about an IPv4 address with 127.0.0.1.
func nameserver(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { pc.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12
			for end < n && b[end] != 0 {
				end += int(b[end]) + 1
			}
			if end += 5; end > n {
				continue
			}
			reply := append([]byte{b[0], b[1], 0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end]...)
			if b[end-3] == 1 { // an A record
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
			}
			_, _ = pc.WriteTo(reply, from) // a lost answer is asked for again
		}
	}()
	return pc.LocalAddr().String()
}

func TestWhenDNSIsGoneDeliveriesAreRetriedAndMadeOnceItIsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	address := nameserver(t)
	var back atomic.Bool
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if !back.Load() {
			return nil, errors.New("no route to host")
		}
		return new(net.Dialer).DialContext(ctx, "udp", address)
	}}
	r := newReceiver(t, ok)
	b.endpoint(r, func(e *registry.Endpoint) {
		e.URL = strings.Replace(r.URL, "127.0.0.1", "receiver.example.test", 1)
		e.Policy = quick(1000, 50*time.Millisecond)
	})
	b.fanout()
	b.dispatcher(func(o *dispatcher.Options) {
		c := webhook.NewClient(webhook.Options{Egress: testkit.Loopback(t), Resolver: resolver})
		o.Destinations = attempt.Destinations{"http": c}
	})
	b.publish("default", "nameless", "order.paid", "1")
	for _, a := range b.ledger.WaitFor(t, 3, kind(record.Attempt)) {
		if a.Outcome != "not_sent" || a.Class != "retryable" || a.Decision != "retry" {
			t.Errorf("an attempt without DNS is %s, %s, %s", a.Outcome, a.Class, a.Decision)
		}
	}
	back.Store(true)
	r.WaitFor(t, 1)
	if end := b.ledger.WaitFor(t, 1, ended)[0]; end.Kind != record.Attempt || end.Status != http.StatusNoContent {
		t.Errorf("it ended with %+v", end)
	}
}

// A full LEDGER stops the pipeline rather than lose a fact: no request is made
// that could not be put on record, and everything goes on once there is room.
func TestAFullLEDGERStopsThePipelineAndLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	limit := func(bytes int64) {
		s, err := b.js.Stream(t.Context(), streams.Ledger)
		must(t, err)
		config := s.CachedInfo().Config
		config.MaxBytes = bytes
		_, err = b.js.UpdateStream(t.Context(), config)
		must(t, err)
	}
	metrics := prometheus.NewRegistry()
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanoutWith(metrics)
	b.dispatcher()
	b.publish("default", "before", "order.paid", "1")
	b.ledger.WaitFor(t, 1, ended)
	limit(1)
	for _, id := range []string{"a", "b", "c"} {
		b.publish("default", id, "order.paid", "1") // EVENTS has room: producers are served
	}
	retried := func() (n float64) {
		families, err := metrics.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() == "waybill_publish_retries_total" {
				n += f.Metric[0].GetCounter().GetValue()
			}
		}
		return n
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); retried() < 5; {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the metrics do not show that LEDGER is full")
		}
	}
	if n := len(r.Got()); n != 1 {
		t.Errorf("%d requests were made that could not be put on record", n-1)
	}
	limit(-1)
	r.WaitFor(t, 4)
	b.ledger.WaitFor(t, 4, ended)
}
