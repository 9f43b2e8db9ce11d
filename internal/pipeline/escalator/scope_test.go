package escalator_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/streams"
)

func TestAnAcknowledgementTakesOneEndpointAndNotAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(func(p *escalation.Policy) { p.Repeat = 2 * time.Second }, step(0, "oncall"))
	b.escalator()
	b.ask(deadTo("ep_1", 1, 0), deadTo("ep_2", 2, 0), deadTo("ep_1", 3, 0))
	got := r.WaitUntil(t, "all of them", func(got []notice) bool { return covered(got) >= 3 })
	incidents := map[string]string{} // by endpoint
	for _, n := range got {
		for endpoint := range n.data.Endpoints {
			if len(n.data.Endpoints) != 1 || incidents[endpoint] != "" && incidents[endpoint] != n.data.Incident {
				t.Fatalf("one message is about %v, incident %s, of %v", n.data.Endpoints, n.data.Incident, incidents)
			}
			incidents[endpoint] = n.data.Incident
		}
	}
	b.acknowledge(incidents["ep_1"], "ann@example.com")
	acks := b.ledger.WaitFor(t, 2, func(r record.Record) bool { return r.Kind == record.EscalationAcked })
	for _, a := range acks {
		if a.EndpointID != "ep_1" {
			t.Errorf("the acknowledgement took %s too", a.EndpointID)
		}
	}
	// The other endpoint is still nobody's, and people are reminded of it.
	reminded := func(got []notice) int {
		n := 0
		for _, m := range got {
			if m.data.Reminder && m.data.Incident == incidents["ep_2"] {
				n++
			}
		}
		return n
	}
	before := reminded(r.WaitFor(t, 1))
	r.WaitUntil(t, "a reminder after the acknowledgement", func(got []notice) bool { return reminded(got) > before })
	if doc := b.incident(incidents["ep_2"]); doc.State != escalation.Open || doc.Scope != escalation.OneEndpoint {
		t.Errorf("the other incident is %s, about %q", doc.State, doc.Scope)
	}
}

func TestManyEndpointsAtOnceAreAFewIncidentsAndOneForAllOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	first := b.escalator()
	const n = 100
	for i := range n {
		b.ask(deadTo(fmt.Sprintf("ep_%d", i), i, 0))
	}
	got := r.WaitUntil(t, "all of them", func(got []notice) bool { return covered(got) >= n })
	many := b.mustBeFewIncidents(got)
	if len(got) > n/2 { // one each, and one for the others in each window
		t.Errorf("%d messages for %d endpoints that failed at once", len(got), n)
	}
	// Whoever takes over goes on with the same ones.
	first.Stop(t)
	b.escalator()
	b.ask(deadTo("ep_1000", 1000, 0), deadTo(b.incident(many).First.EndpointID, 1001, 0))
	got = r.WaitUntil(t, "those that came later", func(got []notice) bool { return covered(got) >= n+2 })
	if again := b.mustBeFewIncidents(got); again != many {
		t.Errorf("the incident of many is %s, then %s", many, again)
	}
	// Once a person has taken that one, an endpoint is an incident of its own again
	// only where there is room.
	b.acknowledge(many, "ann@example.com")
	b.ledger.WaitFor(t, n-escalation.MaxOwn+2, func(r record.Record) bool {
		return r.Kind == record.EscalationAcked &&
			r.IncidentID == many
	})
}

// mustBeFewIncidents returns the one that is for many endpoints.
func (b *bench) mustBeFewIncidents(got []notice) string {
	b.t.Helper()
	own, many := map[string]bool{}, map[string]bool{}
	for _, m := range got {
		if doc := b.incident(m.data.Incident); doc.Scope == escalation.ManyEndpoints {
			many[doc.ID] = true
		} else {
			own[doc.ID] = true
		}
	}
	if len(own) != escalation.MaxOwn || len(many) != 1 {
		b.t.Fatalf("%d incidents of one endpoint and %d of many, want %d and 1", len(own), len(many), escalation.MaxOwn)
	}
	for id := range many {
		return id
	}
	return ""
}

func (b *bench) incident(id string) *escalation.Incident {
	b.t.Helper()
	e, err := b.kv.Get(b.t.Context(), streams.IncidentKey(id))
	must(b.t, err)
	doc, err := escalation.DecodeIncident(e.Value())
	must(b.t, err)
	return doc
}

// An incident that was stored before incidents had a scope.
func TestAnOldIncidentThatMixesEndpointsEndsAsItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	p, err := b.policies.Get(t.Context(), "all")
	must(t, err)
	first, second := deadTo("ep_1", 1, 0), deadTo("ep_2", 2, 0)
	id := escalation.IncidentID(first.ID)
	rev := b.join(first, id)
	doc := escalation.Begin(first, p, rev, time.Now())
	doc.Scope = ""
	doc.Add(second, b.join(second, id))
	body, err := doc.Encode()
	must(t, err)
	_, err = b.kv.Create(t.Context(), streams.IncidentKey(id), body)
	must(t, err)

	b.escalator()
	r.WaitUntil(t, "both of the old one", func(got []notice) bool { return covered(got) >= 2 })
	b.ask(deadTo("ep_2", 3, 0))
	got := r.WaitUntil(t, "the new one", func(got []notice) bool { return covered(got) >= 3 })
	fresh := got[len(got)-1].data
	if fresh.Incident == id || fresh.DeadLetters[0].EventID != "evt-3" {
		t.Errorf("the new dead letter was told as part of %+v", fresh)
	}
	b.acknowledge(id, "ann@example.com")
	b.ledger.WaitFor(t, 2, func(r record.Record) bool { return r.Kind == record.EscalationAcked && r.IncidentID == id })
	if b.incident(fresh.Incident).State != escalation.Open {
		t.Error("taking the old one took the new one too")
	}
}

// join stores a problem as part of an incident.
func (b *bench) join(d escalation.Problem, incident string) uint64 {
	b.t.Helper()
	body, err := json.Marshal(escalation.Member{Problem: d, Incident: incident})
	must(b.t, err)
	rev, err := b.kv.Create(b.t.Context(), streams.TroubleKey(d.ID), body)
	must(b.t, err)
	return rev
}
