package watchdog

import (
	"net/http"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/streams"
)

func TestPeopleAreToldBeforeTheDeadlineWhileNoDispatcherAndNoEscalatorRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t)
	b.tellable(r)
	d := b.watchdog("first")
	b.eventually("it leads", d.Leading)
	o := owed(1, time.Now().UTC(), 12*time.Second)
	dead := deadLetter(o, time.Now())
	b.publish(o)
	r.waitAbout(t, dead.ID)
	n := r.about(dead.ID)[0]
	if !n.at.Before(o.DeliverBy) {
		t.Errorf("told at %s, after the deadline %s", n.at, o.DeliverBy)
	}
	t.Logf("told %s before the deadline", o.DeliverBy.Sub(n.at).Round(time.Millisecond))
	said := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
		return r.Kind == record.Escalation &&
			r.Outcome == "delivered"
	})[0]
	if said.Actor != Actor || said.EventID != o.EventID || said.EndpointID != o.EndpointID ||
		said.Reason != "deadline_exceeded" || said.IncidentID != n.data.Incident || said.Detail == "" {
		t.Errorf("on record: %+v", said)
	}

	// The dispatchers come back, and an escalator: nobody is told again.
	dead = deadLetter(o, time.Now())
	b.publish(dead)
	b.ask(dead)
	b.escalator()
	b.eventually("the escalator has taken the dead letter", func() bool {
		c, err := b.js.Consumer(t.Context(), streams.Escalations, streams.EscalatorConsumer)
		return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0 &&
			c.CachedInfo().AckFloor.Stream > 0
	})
	b.eventually("the watchdog has forgotten it",
		func() bool { return d.outstanding.Load().Open == 0 && d.outstanding.Load().Untold == 0 })
	if got := r.about(dead.ID); len(got) != 1 {
		t.Errorf("told %d times: %+v", len(got), got)
	}
	// It is one incident, which a person can acknowledge.
	kv, err := b.js.KeyValue(t.Context(), streams.IncidentsBucket)
	must(t, err)
	e, err := kv.Get(t.Context(), streams.IncidentKey(n.data.Incident))
	must(t, err)
	doc, err := escalation.DecodeIncident(e.Value())
	must(t, err)
	if doc.First.ID != dead.ID || doc.Told() < doc.FirstRevision || doc.State != escalation.Open {
		t.Errorf("incident: %+v", doc)
	}
}

func TestAnEscalatorThatRunsIsAskedAndTellsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t)
	b.tellable(r)
	b.escalator()
	d := b.watchdog("first")
	b.eventually("the watchdog knows of the escalator", func() bool { return d.alive.Load() })
	o := owed(1, time.Now().UTC(), 12*time.Second)
	dead := deadLetter(o, time.Now())
	b.publish(o)
	r.waitAbout(t, dead.ID)
	b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Action == actionHandedOver && r.Actor == Actor })
	told := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
		return r.Kind == record.Escalation && r.Outcome == "delivered" && r.EventID == o.EventID
	})
	if told[0].Actor == Actor {
		t.Error("the watchdog told though the escalator runs")
	}
	b.eventually("it is known that people were told",
		func() bool { return d.outstanding.Load().PastDeadline == 1 && d.outstanding.Load().Untold == 0 })
	if n := len(r.about(dead.ID)); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestWhatNobodyToldOfIsToldAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t)
	r.status.Store(http.StatusServiceUnavailable)
	b.tellable(r)
	now := time.Now().UTC()
	late, early := deadLetter(owed(1, now.Add(-time.Hour), 0), now.Add(-6*time.Minute)),
		deadLetter(owed(2, now.Add(-time.Hour), 0), now.Add(-time.Minute))
	rejected := record.Record{ID: record.EventRecordID(77, now), Kind: record.EventRejected, At: now.Add(-time.Minute),
		Tenant: "default", Reason: "invalid_event"}
	settled := deadLetter(owed(3, now.Add(-time.Hour), 0), now.Add(-20*time.Minute))
	inTime := record.Record{ID: record.EscalationID("inc_1-1", "hook", 1, settled.ID), Kind: record.Escalation,
		At: now.Add(-19 * time.Minute), Tenant: "default",
		EventID: settled.EventID, EndpointID: settled.EndpointID, Outcome: "delivered", Class: classDelivered,
		Action: "trigger"}
	b.publish(late, settled, inTime, early, rejected)
	d := b.watchdog("first")
	counted := b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Action == actionNotTold })
	if counted[0].EventID != late.EventID || counted[0].Detail != late.ID {
		t.Errorf("counted: %+v", counted[0])
	}
	r.WaitFor(t, 1)
	b.eventually("the figure", func() bool {
		return d.metric(t,
			"waybill_dead_letters_not_escalated_within_5m_total") == 1
	})
	r.status.Store(http.StatusNoContent)
	for _, id := range []string{late.ID, early.ID, rejected.ID} {
		b.ledger.WaitFor(t, 1, func(r record.Record) bool {
			return record.EscalationAbout(r.ID) == id && r.Outcome == "delivered" && r.Actor == Actor
		})
	}
	b.eventually("nothing is owed to people", func() bool { return d.outstanding.Load().Untold == 0 })
	if n := len(r.about(settled.ID)); n != 0 {
		t.Errorf("told %d times of what people knew", n)
	}
	if n := d.metric(t, "waybill_dead_letters_not_escalated_within_5m_total"); n != 1 {
		t.Errorf("the figure is %v", n)
	}
}

func TestADeliveryThatGetsItsVerdictIsNobodysBusiness(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t)
	b.tellable(r)
	d := b.watchdog("first")
	b.eventually("it leads", d.Leading)
	now := time.Now().UTC()
	o, o2 := owed(1, now, 11*time.Second), owed(2, now, 11*time.Second)
	delivered := record.Record{ID: "att_1", Kind: record.Attempt, At: now, StartedAt: now, Tenant: "default",
		EventID: o.EventID, EndpointID: o.EndpointID, DeliverBy: o.DeliverBy, Decision: "delivered"}
	b.publish(o, delivered, o2)
	dead := deadLetter(o2, now)
	r.waitAbout(t, dead.ID)
	if n := len(r.about(deadLetter(o, now).ID)); n != 0 || d.outstanding.Load().Open > 1 {
		t.Errorf("told %d times of a delivery that was made; %+v", n, d.outstanding.Load())
	}
}

func TestAnotherWatchdogTakesOverWithinSecondsAndTellsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t)
	b.tellable(r)
	first := b.watchdog("first")
	b.eventually("the first one leads", first.Leading)
	second := b.watchdog("second")
	b.eventually("the second one sees", func() bool { return second.Ready(t.Context()) == nil })
	if second.Leading() {
		t.Fatal("two lead")
	}
	// It dies as by kill -9: its lease is not given back.
	first.nc.Close()
	died := time.Now()
	o := owed(1, died.UTC(), 15*time.Second)
	b.publish(o)
	b.eventually("the second one leads", second.Leading)
	// The lease's 5 s, and what a busy machine adds.
	if took := time.Since(died); took > 30*time.Second {
		t.Errorf("taken over after %s", took)
	}
	dead := deadLetter(o, died)
	r.waitAbout(t, dead.ID)
	b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Outcome == "delivered" && r.Dispatcher == "second" })
	// A third one that leads after an orderly stop reads what was done, and does nothing.
	third := b.watchdog("third")
	second.Stop(t)
	b.eventually("the third one leads", third.Leading)
	b.eventually("it has read LEDGER", func() bool { return third.outstanding.Load().PastDeadline == 1 })
	if got := r.about(dead.ID); len(got) != 1 || !got[0].at.Before(o.DeliverBy) {
		t.Errorf("told %d times: %+v", len(got), got)
	}
}
