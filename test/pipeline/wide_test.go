package pipeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// many makes n endpoints of a tenant at once, as an import does, and returns
// their ids in order.
func (b *bench) many(tenant string, n int) []string {
	b.t.Helper()
	e := b.endpoint(newReceiver(b.t, ok), func(e *registry.Endpoint) { e.Tenant = tenant })
	js, err := jetstream.New(b.server.Connect(), jetstream.WithPublishAsyncMaxPending(1000))
	must(b.t, err)
	var futures []jetstream.PubAckFuture
	all := []string{e.ID}
	for i := range n - 1 {
		e.ID = fmt.Sprintf("ep_01ZZZZZZZZZZZZZZZZZZ%06d", i)
		all = append(all, e.ID)
		raw, err := json.Marshal(e)
		must(b.t, err)
		f, err := js.PublishMsgAsync(&nats.Msg{Subject: "$KV." + streams.EndpointsBucket + "." + e.ID, Data: raw},
			jetstream.WithStallWait(patience))
		must(b.t, err)
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			b.t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

// checkOwed says whether an event is owed to exactly these, each once, and each
// delivery is on its way.
func (b *bench) checkOwed(event string, ids []string) {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), streams.Deliveries)
	must(b.t, err)
	b.within(wideBound, "each delivery is stored", func() bool {
		info, err := s.Info(b.t.Context())
		return err == nil && info.State.Msgs == uint64(len(ids))
	})
	// The records were stored before.
	owed := b.ledger.WaitFor(b.t, len(ids), func(r record.Record) bool {
		return r.Kind == record.DeliveryOwed &&
			r.EventID == event
	})
	var got []string
	for _, r := range owed {
		got = append(got, r.EndpointID)
	}
	if slices.Sort(got); !slices.Equal(got, ids) {
		b.t.Errorf("%s is owed to %d endpoints, not to those %d that matched", event, len(got), len(ids))
	}
}

// wideBound is how long an event for 50,000 endpoints may take with the race
// detector, on two cores that have other things to do.
const wideBound = 8 * time.Minute

func (b *bench) eventually(what string, cond func() bool) {
	b.t.Helper()
	b.within(patience, what, cond)
}

func (b *bench) within(bound time.Duration, what string, cond func() bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(bound); !cond(); {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("waited for: %s", what)
		}
	}
}

// More than a megabyte of ids: no record and no message grows with the fan-out.
func TestAnEventForFiftyThousandEndpointsIsOwedToEachOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.many("wide", 50_000)
	b.fanout()
	b.publish("wide", "evt-wide", "order.paid", `{"a":1}`)
	b.checkOwed("evt-wide", ids)
	accepted := b.ledger.Where(kind(record.EventAccepted))
	if len(accepted) != 1 || accepted[0].Endpoints != len(ids) || len(accepted[0].EndpointIDs) != 0 ||
		len(accepted[0].EndpointsAt) != 50 {
		t.Fatalf("%d are accepted: %+v", len(accepted), accepted)
	}
	var listed []string
	for _, r := range b.ledger.Where(kind(record.EventEndpoints)) {
		if r.EventID != "evt-wide" || r.EndpointsDigest != accepted[0].EndpointsDigest || len(r.EndpointIDs) > 1000 {
			t.Errorf("%s lists %d of %s", r.ID, len(r.EndpointIDs), r.EventID)
		}
		listed = append(listed, r.EndpointIDs...)
	}
	if slices.Sort(listed); !slices.Equal(listed, ids) {
		t.Errorf("%d endpoints are listed, want %d", len(listed), len(ids))
	}
}

// Whoever expands an event again knows to whom it is owed from what is on record.
func TestAnEventForManyThatIsExpandedAgainIsOwedToThoseWhoMatchedAtFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.many("wide", 2_500)
	seq := b.publish("wide", "evt-wide", "order.paid", `{"a":1}`).Sequence
	first := b.fanout()
	b.checkOwed("evt-wide", ids)
	first.Stop(t)
	// It never happened that the event was acknowledged, nor that anything was published.
	s, err := b.js.Stream(t.Context(), streams.Deliveries)
	must(t, err)
	must(t, s.Purge(t.Context()))
	b.endpoint(newReceiver(t, ok), func(e *registry.Endpoint) { e.Tenant = "wide" })
	config := b.consumer(streams.Events, streams.FanoutConsumer)
	must(t, b.js.DeleteConsumer(t.Context(), streams.Events, streams.FanoutConsumer))
	_, err = b.js.CreateConsumer(t.Context(), streams.Events, config)
	must(t, err)
	b.restartForgetful()
	b.fanout()
	b.eventually("it is expanded again", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.State.Msgs >= uint64(len(ids))
	})
	b.checkOwed("evt-wide", ids)
	if n := len(b.ledger.Where(kind(record.EventAccepted))); n != 1 {
		t.Errorf("event %d was accepted %d times", seq, n)
	}
}

// consumer is how one is configured.
func (b *bench) consumer(stream, name string) jetstream.ConsumerConfig {
	b.t.Helper()
	c, err := b.js.Consumer(b.t.Context(), stream, name)
	must(b.t, err)
	return c.CachedInfo().Config
}

// restartForgetful restarts the server: a work queue forgets the ids of what was
// in it.
func (b *bench) restartForgetful() {
	b.t.Helper()
	b.server.Kill()
	b.server.Restart()
	b.eventually("the server answers", func() bool {
		_,
			err := b.js.Stream(b.t.Context(), streams.Deliveries)
		return err == nil
	})
}
