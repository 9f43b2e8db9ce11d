package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// lay puts an event into EVENTS past every door, as one of two ingests does that
// takes the same id at the same moment, or as an earlier version did.
func (b *bench) lay(tenant, id, data string) uint64 {
	b.t.Helper()
	m := nats.NewMsg(streams.IngestSubject(streams.EventSubject(tenant, "order.paid")))
	m.Data = fmt.Appendf(nil, `{"id":%q,"type":"order.paid","timestamp":"2026-08-19T15:10:00.000Z","data":%s}`, id, data)
	ack, err := b.js.PublishMsg(b.t.Context(), m)
	must(b.t, err)
	return ack.Sequence
}

// became waits for what is on record of the event at a sequence of EVENTS.
func (b *bench) became(seq uint64) record.Record {
	b.t.Helper()
	return b.ledger.WaitFor(b.t, 1, func(r record.Record) bool {
		return strings.HasPrefix(string(r.Kind), "event.") &&
			r.EventSeq == seq
	})[0]
}

// got are the data that a receiver got under an id, each once.
func got(r *receiver, id string) (out []string) {
	for _, q := range r.Got() {
		_, data, _ := strings.Cut(string(q.body), `"data":`)
		if q.id == id && !slices.Contains(out, data) {
			out = append(out, data)
		}
	}
	return out
}

func TestASecondContentUnderAnIDIsRejectedOnRecordAndNobodyGetsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.fanout()
	b.dispatcher()
	first := b.lay("default", "x", "1")
	second, again, third := b.lay("default", "x", "2"), b.lay("default", "x", "1"), b.lay("default", "x", "3")
	last := b.lay("default", "y", "1")
	r.WaitFor(t, 2)
	for seq, want := range map[uint64]record.Kind{first: record.EventAccepted, second: record.EventRejected,
		again: record.EventDuplicate, third: record.EventRejected, last: record.EventAccepted} {
		got := b.became(seq)
		if got.Kind != want || got.EventID == "" || got.DataDigest == "" {
			t.Errorf("event %d became %s of %q, want %s", seq, got.Kind, got.EventID, want)
		}
		if want == record.EventRejected && (got.Reason != "id_in_use" ||
			!strings.Contains(got.Detail, fmt.Sprintf("number %d", first))) {
			t.Errorf("event %d is rejected for %s: %s", seq, got.Reason, got.Detail)
		}
	}
	b.settled()
	if got := got(r, "x"); !slices.Equal(got, []string{"1}"}) || len(r.Got()) != 2 {
		t.Errorf("the receiver got %d requests, of x the data %v", len(r.Got()), got)
	}
	if n := len(b.ledger.Where(kind(record.DeliveryOwed))); n != 2 {
		t.Errorf("%d deliveries are owed", n)
	}
	escalations, err := b.js.Stream(t.Context(), streams.Escalations)
	must(t, err)
	if n := escalations.CachedInfo().State.Msgs; n != 2 {
		t.Errorf("people are to be told of %d events", n)
	}
}

func TestTheIDsOfTwoTenantsNeverMeet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ours, theirs := newReceiver(t, ok), newReceiver(t, ok)
	b.endpoint(ours)
	b.endpoint(theirs, func(e *registry.Endpoint) { e.Tenant = "other" })
	b.fanout()
	b.dispatcher()
	b.lay("default", "x", "1")
	b.lay("other", "x", "2")
	ours.WaitFor(t, 1)
	theirs.WaitFor(t, 1)
	b.settled()
	if a, o := got(ours, "x"), got(theirs, "x"); !slices.Equal(a, []string{"1}"}) || !slices.Equal(o, []string{"2}"}) {
		t.Errorf("they got %v and %v", a, o)
	}
}

// TestAnIDStaysInUseWhateverRestarts: the index is made again, by another process,
// and the queues have forgotten the first delivery.
func TestAnIDStaysInUseWhateverRestarts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	f := b.fanout()
	b.dispatcher()
	first := b.lay("default", "x", "1")
	r.WaitFor(t, 1)
	b.settled()
	f.Stop(t)
	b.server.Kill()
	b.server.Restart()
	second := b.lay("default", "x", "2")
	b.fanout()
	if got := b.became(second); got.Kind != record.EventRejected || got.Reason != "id_in_use" {
		t.Errorf("the second content is %s (%s)", got.Kind, got.Reason)
	}
	b.stored(t, streams.Events, streams.FanoutConsumer)
	s, err := b.js.Stream(t.Context(), streams.EventIDs)
	must(t, err)
	events, err := b.js.Stream(t.Context(), streams.Events)
	must(t, err)
	// Kept, so that it does not come to own the id when the first has expired.
	if _, err := s.GetLastMsgForSubject(t.Context(),
		streams.DisownedSubject(events.CachedInfo().Created.UnixNano(), second)); err != nil {
		t.Errorf("it is not kept that event %d does not own its id: %v", second, err)
	}
	b.settled()
	if first != 1 || len(r.Got()) != 1 {
		t.Errorf("the receiver got %d requests", len(r.Got()))
	}
}

// TestWhatWasRejectedDoesNotComeToOwnItsID: the owner has expired. What was
// rejected then was sent to nobody, so the same again is no duplicate of it.
func TestWhatWasRejectedDoesNotComeToOwnItsID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	b.lay("default", "x", "1")
	rejected := b.lay("default", "x", "2")
	b.became(rejected)
	b.stored(t, streams.Events, streams.FanoutConsumer)
	r.WaitFor(t, 1)
	// Of a limits stream the first message goes as if it had expired.
	events, err := b.js.Stream(t.Context(), streams.Events)
	must(t, err)
	config := events.CachedInfo().Config
	config.MaxMsgs, config.Discard = 1, 0
	_, err = b.js.UpdateStream(t.Context(), config)
	must(t, err)
	config.MaxMsgs = -1
	_, err = b.js.UpdateStream(t.Context(), config)
	must(t, err)
	again := b.lay("default", "x", "2")
	if got := b.became(again); got.Kind != record.EventAccepted {
		t.Errorf("it is %s (%s)", got.Kind, got.Detail)
	}
}

func TestAReplaySendsWhatReceiversGotUnderTheID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	e := b.endpoint(r)
	b.fanout()
	b.dispatcher()
	first := b.lay("default", "x", "1")
	second, same := b.lay("default", "x", "2"), b.lay("default", "x", "1")
	r.WaitFor(t, 1)
	for i, c := range []struct {
		seq  uint64
		want record.Kind
	}{{second, record.DeliveryCancelled}, {first, record.DeliveryOwed}, {same, record.DeliveryOwed}} {
		req := replay.Request{ID: ids.New(ids.Replay, time.Now()), Tenant: "default", EventID: "x", EventSeq: c.seq,
			Actor: "jo", Reason: "asked",
			Targets: []replay.Target{{EndpointID: e.ID, Attempts: 1 + i}}, RequestedAt: time.Now()}
		body, err := req.Encode()
		must(t, err)
		_, err = b.js.Publish(t.Context(), streams.ReplaySubject("default"), body)
		must(t, err)
		rec := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return r.ReplayID == req.ID && (r.Kind == record.DeliveryOwed || r.Kind == record.DeliveryCancelled)
		})[0]
		if rec.Kind != c.want || rec.Kind == record.DeliveryCancelled && rec.Reason != "id_in_use" {
			t.Errorf("a replay of event %d became %s (%s %s)", c.seq, rec.Kind, rec.Reason, rec.Detail)
		}
	}
	r.WaitFor(t, 3)
	b.settled()
	if got := got(r, "x"); !slices.Equal(got, []string{"1}"}) {
		t.Errorf("under one id the receiver got %v", got)
	}
}
