package registry_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/test/testkit"
)

func named(name string) *retry.Policy {
	p := retry.Standard()
	p.Name = name
	return &p
}

func TestWhichDeadlineAndWhichPolicyHold(t *testing.T) {
	owed := time.Date(2026, 8, 19, 15, 10, 0, 0, time.UTC)
	own := owed.Add(7 * time.Minute)
	whole := func() registry.Question {
		return registry.Question{Type: "lab.critical", OwedAt: owed, DeliverBy: own,
			Endpoint: &registry.Endpoint{DeliverWithin: time.Hour, Policy: named("endpoint"),
				Policies: []registry.PolicyRule{{Types: []string{"x", "lab.*"}, Policy: *named("rule")},
					{Types: []string{">"}, Policy: *named("later rule")}}},
			Rules: []*registry.EventType{{Pattern: "lab.critical", DeliverWithin: time.Minute},
				{Pattern: "lab.>", DeliverWithin: time.Second, Policy: named("type")}}}
	}
	none := registry.Source{Rule: registry.RuleNone}
	tests := []struct {
		name       string
		less       func(*registry.Question) // takes away what would win
		deliverBy  time.Time
		deadline   registry.Source
		policy     string
		policyFrom registry.Source
	}{
		{"everything is set: the event, and the endpoint's rule for the type", func(*registry.Question) {},
			own, registry.Source{Rule: registry.RuleEvent}, "rule",
			registry.Source{Rule: registry.RuleEndpointType, Pattern: "lab.*"}},
		{"an event without a deadline gets its type's, of the closest pattern that sets one",
			func(q *registry.Question) { q.DeliverBy = time.Time{} },
			owed.Add(time.Minute), registry.Source{Rule: registry.RuleEventType, Pattern: "lab.critical"}, "rule",
			registry.Source{Rule: registry.RuleEndpointType, Pattern: "lab.*"}},
		{"without a type's it gets the endpoint's", func(q *registry.Question) { q.DeliverBy, q.Rules = time.Time{}, nil },
			owed.Add(time.Hour), registry.Source{Rule: registry.RuleEndpoint}, "rule",
			registry.Source{Rule: registry.RuleEndpointType, Pattern: "lab.*"}},
		{"an endpoint without a rule for the type has its own policy",
			func(q *registry.Question) { q.Endpoint.Policies = q.Endpoint.Policies[:0] },
			own, registry.Source{Rule: registry.RuleEvent}, "endpoint", registry.Source{Rule: registry.RuleEndpoint}},
		{"an endpoint without a policy has the type's, of the closest pattern that sets one",
			func(q *registry.Question) { q.Endpoint.Policies, q.Endpoint.Policy = nil, nil },
			own, registry.Source{Rule: registry.RuleEvent}, "type",
			registry.Source{Rule: registry.RuleEventType, Pattern: "lab.>"}},
		{"a deadline alone makes it urgent", func(q *registry.Question) { q.Endpoint, q.Rules = &registry.Endpoint{}, nil },
			own, registry.Source{Rule: registry.RuleEvent}, "urgent", registry.Source{Rule: registry.RuleDeadline}},
		{"also for an endpoint that nobody knows", func(q *registry.Question) { q.Endpoint, q.Rules = nil, nil },
			own, registry.Source{Rule: registry.RuleEvent}, "urgent", registry.Source{Rule: registry.RuleDeadline}},
		{"nothing at all is standard, without a deadline",
			func(q *registry.Question) { *q = registry.Question{Type: q.Type, OwedAt: owed} },
			time.Time{}, none, "standard", registry.Source{Rule: registry.RuleDefault}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := whole()
			tt.less(&q)
			got := registry.Resolve(q)
			if !got.DeliverBy.Equal(tt.deliverBy) || got.DeadlineFrom != tt.deadline {
				t.Errorf("the deadline is %s from %+v, want %s from %+v", got.DeliverBy, got.DeadlineFrom, tt.deliverBy,
					tt.deadline)
			}
			if got.Policy.Name != tt.policy || got.PolicyFrom != tt.policyFrom {
				t.Errorf("the policy is %s from %+v, want %s from %+v", got.Policy.Name, got.PolicyFrom, tt.policy, tt.policyFrom)
			}
			if got.PolicyFrom.String() == "" || got.DeadlineFrom.String() == "" {
				t.Error("a rule has no name for people")
			}
			q.DeliverBy = got.DeliverBy
			if p, from := registry.ResolvePolicy(q); p.Name != tt.policy || from != tt.policyFrom {
				t.Errorf("later, with the deadline promised, the policy is %s from %+v", p.Name, from)
			}
		})
	}
}

func TestADeadlineThatWasNotPromisedDoesNotMakeADeliveryUrgent(t *testing.T) {
	q := registry.Question{Type: "a", Endpoint: &registry.Endpoint{DeliverWithin: time.Minute}}
	if p, from := registry.ResolvePolicy(q); p.Name != retry.StandardName || from.Rule != registry.RuleDefault {
		t.Errorf("%s from %+v", p.Name, from)
	}
}

func TestAnEventTypeIsSetSeenAndDeleted(t *testing.T) {
	s := testkit.NATS(t)
	store, view := open(t, s), watch(t, s)
	seen := func(eventType string) []string {
		t.Helper()
		must(t, view.Fresh(t.Context()))
		var out []string
		for _, e := range view.EventTypes("acme", eventType) {
			out = append(out, e.Pattern)
		}
		return out
	}
	for _, pattern := range []string{">", "lab.*", "lab.critical", "lab.>", "*.critical", "other"} {
		e, err := store.SetEventType(t.Context(), registry.EventType{Tenant: "acme", Pattern: pattern,
			DeliverWithin: time.Minute}, "ada", "")
		must(t, err)
		if e.Revision != 1 || e.Change != "created" || e.UpdatedBy != "ada" {
			t.Errorf("%+v", e)
		}
	}
	if got, want := seen("lab.critical"), []string{"lab.critical", "lab.*", "lab.>", "*.critical", ">"}; !slices.Equal(got,
		want) {
		t.Errorf("what matches is %q, want %q: the closest first", got, want)
	}
	e, err := store.SetEventType(t.Context(), registry.EventType{Tenant: "acme", Pattern: "lab.*", Policy: named("mine")},
		"bob", "why")
	must(t, err)
	if e.Revision != 2 || e.Change != "updated" || e.DeliverWithin != 0 {
		t.Errorf("the whole was not replaced: %+v", e)
	}
	_, err = store.DeleteEventType(t.Context(), "acme", "lab.critical", "bob", "")
	must(t, err)
	if got, want := seen("lab.critical"), []string{"lab.*", "lab.>", "*.critical", ">"}; !slices.Equal(got, want) {
		t.Errorf("what matches is %q, want %q", got, want)
	}
	for _, failed := range []error{
		second(store.DeleteEventType(t.Context(), "acme", "lab.critical", "bob", "")),
		second(store.EventType(t.Context(), "acme", "lab.critical")),
		second(store.EventType(t.Context(), "other", "lab.*")),
	} {
		if !errors.Is(failed, registry.ErrNotFound) {
			t.Errorf("%v", failed)
		}
	}
	again, err := store.SetEventType(t.Context(), registry.EventType{Tenant: "acme", Pattern: "lab.critical",
		DeliverWithin: time.Hour}, "ada", "")
	must(t, err)
	if again.Revision != 3 || again.Change != "created" {
		t.Errorf("set again it is %+v", again)
	}
	list, err := store.EventTypes(t.Context(), "acme")
	must(t, err)
	if len(list) != 6 || list[0].Pattern != "lab.critical" || list[5].Pattern != ">" {
		t.Errorf("listed: %+v", list)
	}
	_, err = store.SetEventType(t.Context(), registry.EventType{Tenant: "acme", Pattern: "a"}, "ada", "")
	if err == nil {
		t.Error("an event type that sets nothing was stored")
	}
}

func second(_ registry.EventType, err error) error { return err }
