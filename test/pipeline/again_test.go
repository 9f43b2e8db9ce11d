package pipeline_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// decided leaves what a fanout put on record that died before anything that
// follows from it was stored.
func (b *bench) decided(r record.Record) {
	b.t.Helper()
	r.At, r.Tenant = time.Now(), "default"
	m, err := r.Message()
	must(b.t, err)
	_, err = b.js.PublishMsg(b.t.Context(), m)
	must(b.t, err)
}

// eventID is the id of the record of an event of EVENTS.
func (b *bench) eventID(seq uint64) string {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), streams.Events)
	must(b.t, err)
	m, err := s.GetMsg(b.t.Context(), seq)
	must(b.t, err)
	return record.EventRecordID(seq, m.Time)
}

func TestAnEventThatIsExpandedAgainIsOwedToThoseWhoMatchedAtFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	was, now := newReceiver(t, ok), newReceiver(t, ok)
	owed, gone := b.endpoint(was), b.endpoint(newReceiver(t, ok))
	b.set(gone, registry.Disabled)
	seq := b.publish("default", "evt-1", "order.paid", "1").Sequence
	b.decided(record.Record{ID: b.eventID(seq), Kind: record.EventAccepted, EventID: "evt-1", EventSeq: seq,
		Endpoints: 2, EndpointIDs: []string{owed.ID, gone.ID}})
	b.endpoint(now)
	b.fanout()
	b.dispatcher()
	was.WaitFor(t, 1)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
	b.publish("default", "evt-2", "order.paid", "1")
	now.WaitFor(t, 1)
	b.settled()
	if dead[0].EndpointID != gone.ID || dead[0].Reason != "endpoint_disabled" {
		t.Errorf("the dead letter is %+v", dead[0])
	}
	for _, r := range b.ledger.Where(kind(record.DeliveryOwed)) {
		if r.EventID == "evt-1" && r.EndpointID != owed.ID && r.EndpointID != gone.ID {
			t.Errorf("it is owed to %s, which did not match", r.EndpointID)
		}
	}
	if got := now.Got(); len(got) != 1 || got[0].id != "evt-2" {
		t.Errorf("the endpoint that matches since then got %d requests, the first of %s", len(got), got[0].id)
	}
}

func TestAnEventThatIsExpandedAgainStaysUnmatched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seq := b.publish("default", "evt-1", "order.paid", "1").Sequence
	b.decided(record.Record{ID: b.eventID(seq), Kind: record.EventUnmatched, EventID: "evt-1", EventSeq: seq})
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-2", "order.paid", "1")
	if got := r.WaitFor(t, 1); got[0].id != "evt-2" {
		t.Errorf("got %s", got[0].id)
	}
	b.settled()
	if n := len(b.ledger.Where(kind(record.EventAccepted))); n != 1 {
		t.Errorf("%d events are accepted", n)
	}
}

func TestAnEventThatIsExpandedAgainAfterLEDGERForgotItStaysAsItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shortMemory(b, streams.Ledger)
	c, err := b.js.Consumer(t.Context(), streams.Events, streams.FanoutConsumer)
	must(t, err)
	seq := b.publish("default", "evt-1", "order.paid", "1").Sequence
	m, err := c.Next()
	must(t, err)
	b.decided(record.Record{ID: b.eventID(seq), Kind: record.EventUnmatched, EventID: "evt-1", EventSeq: seq})
	b.forget(streams.Ledger, "ledger.probe.default")
	b.endpoint(newReceiver(t, ok))
	must(t, m.Nak())
	b.fanout()
	b.publish("default", "evt-2", "order.paid", "1")
	b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Kind == record.EventAccepted && r.EventID == "evt-2" })
	b.stored(t, streams.Events, streams.FanoutConsumer)
	if n := len(b.ledger.Where(func(r record.Record) bool {
		return r.EventID == "evt-1" &&
			r.Kind != record.EventUnmatched
	})); n != 0 {
		t.Errorf("%d other records of it", n)
	}
}

// stored waits until a consumer has nothing left in hand.
func (b *bench) stored(t *testing.T, stream, consumer string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		c, err := b.js.Consumer(t.Context(), stream, consumer)
		must(t, err)
		if info := c.CachedInfo(); info.NumPending == 0 && info.NumAckPending == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s/%s is not done", stream, consumer)
		}
	}
}

func TestAReplayThatIsExpandedAgainStaysWhatItBecame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before record.Kind
		state  registry.State
	}{
		"it was owed, and the endpoint is disabled now":     {record.DeliveryOwed, registry.Disabled},
		"it was cancelled, and the endpoint is enabled now": {record.DeliveryCancelled, registry.Enabled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := newReceiver(t, ok)
			e := b.endpoint(r)
			f := b.fanout()
			d := b.dispatcher()
			seq := b.publish("default", "evt-1", "order.paid", "1").Sequence
			r.WaitFor(t, 1)
			b.settled()
			f.Stop(t)
			d.Stop(t)
			b.set(e, c.state)
			req := replay.Request{ID: ids.New(ids.Replay, time.Now()), Tenant: "default", EventID: "evt-1", EventSeq: seq,
				Actor: "jo", Reason: "asked",
				Targets: []replay.Target{{EndpointID: e.ID, Attempts: 1}}, RequestedAt: time.Now()}
			b.decided(record.Record{ID: record.OwedID("evt-1", e.ID, req.ID), Kind: c.before, EventID: "evt-1", EndpointID: e.ID,
				ReplayID: req.ID})
			body, err := req.Encode()
			must(t, err)
			_, err = b.js.Publish(t.Context(), streams.ReplaySubject("default"), body)
			must(t, err)
			b.fanout()
			b.dispatcher()
			b.stored(t, streams.Replays, streams.ReplayConsumer)
			b.settled()
			ends := b.ledger.WaitFor(t, 2, ended)
			if len(ends) != 2 || len(r.Got()) != 1 {
				t.Errorf("%d ends, %d requests", len(ends), len(r.Got()))
			}
			if owed := ends[1].Kind == record.DeliveryDeadLetter; owed != (c.before == record.DeliveryOwed) {
				t.Errorf("it ended as %s", ends[1].Kind)
			}
		})
	}
}
