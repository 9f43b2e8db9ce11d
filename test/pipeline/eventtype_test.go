package pipeline_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/registry"
)

func TestAnEventTypesDeadlineAndPolicyHoldFromTheNextEventOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, status(http.StatusServiceUnavailable))
	b.endpoint(r, func(e *registry.Endpoint) { e.Policy, e.DeliverWithin = nil, time.Hour })
	b.fanout()
	b.dispatcher()
	set := func(pattern string, within time.Duration, attempts int) {
		t.Helper()
		_, err := b.store.SetEventType(t.Context(),
			registry.EventType{Tenant: "default", Pattern: pattern, DeliverWithin: within,
				Policy: quick(attempts, time.Millisecond)}, "ada", "the contract says so")
		must(t, err)
	}
	set("lab.>", 30*time.Minute, 3)
	b.publish("default", "evt-1", "lab.critical", `1`)
	dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
	if dead[0].Attempts != 3 || dead[0].Reason != "attempts_exhausted" {
		t.Errorf("the type's policy allows three attempts; it ended as %+v", dead[0])
	}
	set("lab.critical", 0, 2) // sets no deadline: that of lab.> holds still
	b.publish("default", "evt-2", "lab.critical", `1`)
	if dead = b.ledger.WaitFor(t, 2, kind(record.DeliveryDeadLetter)); dead[1].Attempts != 2 {
		t.Errorf("the closer pattern's policy allows two attempts; it ended as %+v", dead[1])
	}
	for _, owed := range b.ledger.WaitFor(t, 2, kind(record.DeliveryOwed)) {
		if within := owed.DeliverBy.Sub(owed.StoredAt); within != 30*time.Minute {
			t.Errorf("%s is to be delivered within %s, want the type's 30m", owed.EventID, within)
		}
	}
	_, err := b.store.DeleteEventType(t.Context(), "default", "lab.critical", "bob", "")
	must(t, err)
	changes := b.ledger.WaitFor(t, 3, kind(record.EventTypeChanged))
	for i, want := range []struct{ actor, action, pattern, reason string }{
		{"ada", "created", "lab.>", "the contract says so"}, {"ada", "created", "lab.critical", "the contract says so"},
		{"bob", "deleted", "lab.critical", ""},
	} {
		c := changes[i]
		if c.Actor != want.actor || c.Action != want.action || len(c.EventTypes) != 1 || c.EventTypes[0] != want.pattern ||
			c.Reason != want.reason || c.Detail == "" {
			t.Errorf("change %d on record is %+v, want %+v", i, c, want)
		}
	}
}

func TestAPolicyThatChangesDuringADeliveryHoldsFromItsNextAttemptOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, status(http.StatusServiceUnavailable))
	b.endpoint(r, func(e *registry.Endpoint) { e.Policy = nil })
	b.fanout()
	b.dispatcher()
	_, err := b.store.SetEventType(t.Context(), registry.EventType{Tenant: "default", Pattern: ">",
		Policy: quick(8, 500*time.Millisecond)}, "ada", "")
	must(t, err)
	b.publish("default", "evt-1", "order.paid", `1`)
	r.WaitFor(t, 1)
	_, err = b.store.SetEventType(t.Context(), registry.EventType{Tenant: "default", Pattern: ">",
		Policy: quick(2, time.Millisecond)}, "ada", "")
	must(t, err)
	if dead := b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter)); dead[0].Attempts != 2 {
		t.Errorf("it ended after %d attempts, want 2", dead[0].Attempts)
	}
}
