package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// ask publishes a replay as control does.
func (b *bench) ask(seq uint64, event string, targets ...replay.Target) replay.Request {
	b.t.Helper()
	req := replay.Request{ID: ids.New(ids.Replay, time.Now()), Tenant: "default", EventID: event, EventSeq: seq,
		Targets: targets,
		Actor:   "ann@ward", Reason: "the receiver lost its database", RequestedAt: time.Now().UTC()}
	data, err := req.Encode()
	must(b.t, err)
	_, err = b.js.Publish(b.t.Context(), streams.ReplaySubject("default"), data, jetstream.WithMsgID(req.ID))
	must(b.t, err)
	return req
}

func TestAReplayKeepsTheIdGoesOnCountingAndIsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	e := b.endpoint(r)
	b.fanout()
	b.dispatcher()
	ack := b.publish("default", "evt-1", "order.paid", `{"a":1}`)
	r.WaitFor(t, 1)
	b.settled()
	for n := 2; n <= 3; n++ { // each happens, also right after the other
		req := b.ask(ack.Sequence, "evt-1", replay.Target{EndpointID: e.ID, Attempts: n - 1})
		got := r.WaitFor(t, n)[n-1]
		if got.id != "evt-1" || got.attempt != n || got.badSig != nil {
			t.Errorf("replay %d: id %s, attempt %d, signature %v", n-1, got.id, got.attempt, got.badSig)
		}
		asked := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return r.Kind == record.ReplayRequested &&
				r.ReplayID == req.ID
		})
		if asked[0].Actor != "ann@ward" || asked[0].Reason != req.Reason || asked[0].EndpointID != e.ID {
			t.Errorf("on record: %+v", asked[0])
		}
		b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return r.Kind == record.Attempt && r.ReplayID == req.ID &&
				r.Attempt == n
		})
	}
}

func TestAReplayThatCannotBeCarriedOutEndsWithAReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	gone := b.endpoint(r, func(e *registry.Endpoint) { e.Types = []string{"other"} })
	stranger := b.endpoint(r, func(e *registry.Endpoint) { e.Tenant = "another" })
	paused := b.endpoint(r, func(e *registry.Endpoint) { e.Types = []string{"other"} })
	change := func(id string, s registry.State) {
		_, err := b.store.Update(t.Context(), id, "test", string(s), "",
			func(e *registry.Endpoint) error { e.State = s; return nil })
		must(t, err)
	}
	b.fanout()
	b.dispatcher()
	ack := b.publish("default", "evt-1", "order.paid", `1`)
	b.ledger.WaitFor(t, 1, kind(record.EventUnmatched))
	for _, c := range []struct {
		name, reason, endpoint string
		seq                    uint64
		before                 func()
	}{
		{"the endpoint was deleted", "endpoint_deleted", gone.ID, ack.Sequence, func() { change(gone.ID, registry.Deleted) }},
		{"the endpoint is another tenant's", "endpoint_deleted", stranger.ID, ack.Sequence, func() {}},
		{"the event has expired", "event_expired", paused.ID, 99, func() {}},
		{"the endpoint is disabled", "endpoint_disabled", paused.ID, ack.Sequence,
			func() { change(paused.ID, registry.Disabled) }},
	} {
		c.before()
		req := b.ask(c.seq, "evt-1", replay.Target{EndpointID: c.endpoint})
		got := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return r.Kind == record.DeliveryCancelled &&
				r.ReplayID == req.ID
		})
		if got[0].Reason != c.reason || got[0].Detail == "" {
			t.Errorf("%s: cancelled with %q, %q", c.name, got[0].Reason, got[0].Detail)
		}
	}
	if n := len(r.Got()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestATestEventGoesToItsEndpointAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tested, other := newReceiver(t, ok), newReceiver(t, ok)
	e := b.endpoint(tested, func(e *registry.Endpoint) { e.Types = []string{"nothing.like.it"} })
	b.endpoint(other)
	foreign := b.endpoint(other, func(e *registry.Endpoint) { e.Tenant = "another" })
	b.fanout()
	b.dispatcher()
	for i, id := range []string{e.ID, foreign.ID} {
		event := fmt.Sprintf("evt-%d", i)
		m := &nats.Msg{Subject: streams.IngestSubject(streams.EventSubject("default", "waybill.test")),
			Header: nats.Header{nats.MsgIdHdr: {streams.EventMsgID("default", event)}, streams.HeaderOnlyEndpoint: {id}},
			Data:   fmt.Appendf(nil, `{"id":%q,"type":"waybill.test","timestamp":"2026-08-19T15:10:00Z","data":1}`, event)}
		_, err := b.js.PublishMsg(t.Context(), m)
		must(t, err)
	}
	tested.WaitFor(t, 1)
	if got := b.ledger.WaitFor(t, 1, kind(record.EventUnmatched)); got[0].EventID != "evt-1" ||
		got[0].Reason != "endpoint_unknown" {
		t.Errorf("the test of another tenant's endpoint: %+v", got[0])
	}
	b.settled()
	if n := len(other.Got()); n != 0 {
		t.Errorf("another endpoint got %d requests", n)
	}
}
