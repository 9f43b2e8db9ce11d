package pipeline_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// limit bounds what a stream takes of one message.
func (b *bench) limit(stream string, most int32) {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), stream)
	must(b.t, err)
	config := s.CachedInfo().Config
	config.MaxMsgSize = most
	_, err = b.js.UpdateStream(b.t.Context(), config)
	must(b.t, err)
}

// An error that cannot pass ends in a record and an alarm, and holds nothing up.
func TestADeliveryThatCanNeverBeStoredEndsAsADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	a, c := b.endpoint(r), b.endpoint(r)
	b.limit(streams.Deliveries, 4000)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-big", "order.paid", `"`+strings.Repeat("x", 8000)+`"`)
	b.publish("default", "evt-small", "order.paid", "1")
	dead := b.ledger.WaitFor(t, 2, kind(record.DeliveryDeadLetter))
	got := map[string]bool{}
	for _, d := range dead {
		got[d.EndpointID] = true
		if d.EventID != "evt-big" || d.Reason != string(outcome.ReasonNotStorable) || d.Attempts != 0 {
			t.Errorf("%+v", d)
		}
	}
	if !got[a.ID] || !got[c.ID] {
		t.Errorf("not both deliveries ended: %v", got)
	}
	for _, q := range r.WaitFor(t, 2) {
		if q.id != "evt-small" {
			t.Errorf("received %s", q.id)
		}
	}
	b.eventually("people are to be told of both", func() bool {
		s, err := b.js.Stream(t.Context(), streams.Escalations)
		return err == nil && s.CachedInfo().State.Msgs == 2
	})
	b.settled()
}

func TestAnEventWhoseRecordCanNeverBeStoredIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	for range 60 { // 32 bytes each, in the record that it is accepted
		b.endpoint(r, func(e *registry.Endpoint) { e.Tenant = "wide" })
	}
	b.endpoint(r)
	b.limit(streams.Ledger, 1900)
	b.fanout()
	b.publish("wide", "evt-wide", "order.paid", "1")
	b.publish("default", "evt-small", "order.paid", "1")
	rejected := b.ledger.WaitFor(t, 1, kind(record.EventRejected))
	if rejected[0].EventID != "evt-wide" || rejected[0].Reason != string(outcome.ReasonNotStorable) {
		t.Errorf("%+v", rejected[0])
	}
	if accepted := b.ledger.WaitFor(t, 1, kind(record.EventAccepted)); accepted[0].EventID != "evt-small" {
		t.Errorf("%+v", accepted[0])
	}
	b.eventually("people are to be told", func() bool {
		s, err := b.js.Stream(t.Context(), streams.Escalations)
		return err == nil && s.CachedInfo().State.Msgs == 1
	})
}

func TestADeliveryWhoseNextAttemptCanNeverBeStoredEndsAsADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, status(http.StatusServiceUnavailable))
	e := b.endpoint(r)
	b.limit(streams.Retry, 4000)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-big", "order.paid", `"`+strings.Repeat("x", 8000)+`"`)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
	if d := dead[0]; d.EndpointID != e.ID || d.Reason != string(outcome.ReasonNotStorable) || d.Attempts != 1 ||
		len(r.Got()) != 1 {
		t.Errorf("after %d requests: %+v", len(r.Got()), d)
	}
	b.settled()
}
