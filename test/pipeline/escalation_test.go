package pipeline_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/streams"
)

// escalated returns what ESCALATIONS holds, by its message ids; there is no
// escalator to take it.
func (b *bench) escalated() map[string]escalation.Problem {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), streams.Escalations)
	must(b.t, err)
	state := s.CachedInfo().State
	out := map[string]escalation.Problem{}
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := s.GetMsg(b.t.Context(), seq)
		must(b.t, err)
		trouble, err := escalation.Decode(m.Data)
		must(b.t, err)
		if m.Subject != streams.EscalationSubject(trouble.Tenant) {
			b.t.Errorf("on the subject %s", m.Subject)
		}
		out[m.Header.Get(nats.MsgIdHdr)] = trouble
	}
	return out
}

// asked waits until people are to be told of a record.
func (b *bench) asked(id string) escalation.Problem {
	b.t.Helper()
	deadline := time.After(patience)
	for {
		if got, ok := b.escalated()[id]; ok {
			return got
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			b.t.Fatalf("nobody is asked to tell people of %s", id)
		}
	}
}

func TestADeadLetterAsksForPeopleToBeToldBeforeItsDeliveryIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, status(422))
	e := b.endpoint(r)
	b.fanout()
	b.dispatcher()
	ack := b.publish("default", "evt-1", "order.paid", `{"name":"Mrs Miller"}`)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))[0]
	b.settled()
	got := b.escalated()
	if d := got[dead.ID]; len(got) != 1 || d.EventID != "evt-1" || d.EndpointID != e.ID || d.EventType != "order.paid" ||
		d.Reason != "permanently_rejected" ||
		d.Attempts != 1 || d.Why == "" || d.Host == "" {
		t.Errorf("asked for %+v", got)
	}
	// A replay that ends so too is told too, under an id of its own.
	req := b.ask(ack.Sequence, "evt-1", replay.Target{EndpointID: e.ID, Attempts: 1})
	again := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
		return r.Kind == record.DeliveryDeadLetter &&
			r.ReplayID == req.ID
	})[0]
	b.settled()
	if d := b.escalated()[again.ID]; d.ReplayID != req.ID || again.ID == dead.ID {
		t.Errorf("asked for %+v", d)
	}
}

func TestARejectedEventAsksForPeopleToBeTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fanout()
	_, err := b.tryPublish(streams.EventSubject("default", "order.paid"), "evt-1",
		`{"id":"evt-1","type":"order.paid","timestamp":"2026-08-19T15:10:00Z"}`)
	if err == nil {
		t.Error("its producer was told that it is accepted")
	}
	rejected := b.ledger.WaitFor(t, 1, kind(record.EventRejected))[0]
	if d := b.asked(rejected.ID); d.Kind != record.EventRejected || d.EventID != "evt-1" || d.Reason != "invalid_event" ||
		d.Why != "" {
		t.Errorf("asked for %+v", d)
	}
}

func TestADispatcherThatDiedBeforeItAskedForPeopleHasItAsked(t *testing.T) {
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
	// It died after the dead letter's record, before the message to people.
	id := record.EndID(record.DeliveryDeadLetter, "evt-1", c.task.EndpointID, "")
	dead := record.Record{ID: id, Kind: record.DeliveryDeadLetter, At: time.Now(), Tenant: "default", EventID: "evt-1",
		EndpointID: c.task.EndpointID,
		Reason:     "permanently_rejected", Attempts: 1}
	m, err := dead.Message()
	must(t, err)
	_, err = b.js.PublishMsg(t.Context(), m)
	must(t, err)
	b.dispatcher()
	b.settled()
	if got := b.escalated(); len(got) != 1 || got[id].Reason != "permanently_rejected" {
		t.Errorf("asked for %+v", got)
	}
}

func TestADeliveryIsNotOverWhilePeopleCannotBeAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, err := b.js.Stream(t.Context(), streams.Escalations)
	must(t, err)
	full := s.CachedInfo().Config
	full.MaxMsgs, full.Discard = 1, jetstream.DiscardNew
	_, err = b.js.UpdateStream(t.Context(), full)
	must(t, err)
	_, err = b.js.Publish(t.Context(), streams.EscalationSubject("default"), []byte("in the way"))
	must(t, err)
	r := newReceiver(t, status(422))
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))[0]
	owed, err := b.js.Stream(t.Context(), streams.Deliveries)
	must(t, err)
	if n := owed.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d deliveries are left in the queue, want the one that nobody could be told of", n)
	}
	must(t, s.Purge(t.Context()))
	b.settled()
	if got := b.escalated(); len(got) != 1 || got[dead.ID].EventID != "evt-1" {
		t.Errorf("asked for %+v", got)
	}
}
