package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
)

// terms are what an attempt that starts now may spend, or why there is none.
type terms struct {
	endpoint *registry.Endpoint // nil when there never was one
	opened   *registry.Opened   // what its requests need, unless over or locked
	locked   error              // why it does not open
	budget   Budget
	timeout  time.Duration // above 0, unless over
	over     *Decision
}

func (d *Dispatcher) termsOf(ctx context.Context, delivery delivery.Delivery) (t terms, err error) {
	if t.endpoint, t.over, err = d.receiver(ctx, delivery); err != nil {
		return t, err
	}
	now := d.clock.Now()
	t.budget = budgetOf(delivery, t.endpoint, d.view.EventTypes(delivery.Tenant, delivery.Type))
	if t.over != nil {
		return t, nil
	}
	if over, ok := DecideBefore(t.budget, delivery.Spent, now, Held{}); !ok {
		// What held it is asked for only when the reason depends on it.
		if over.Reason == outcome.ReasonNotAttempted || over.Reason == outcome.ReasonDeadlineExceeded {
			over, _ = DecideBefore(t.budget, delivery.Spent, now, d.heldBy(t.endpoint))
		}
		t.over = &over
		return t, nil
	}
	t.timeout = retry.AttemptTimeout(t.budget, now, t.endpoint.Timeout)
	if t.opened, t.locked = t.endpoint.Open(d.o.Keys); t.locked == nil {
		_, t.locked = t.opened.Keys(now)
	}
	return t, nil
}

// heldBy is what keeps an endpoint's attempts from being made here and now.
func (d *Dispatcher) heldBy(e *registry.Endpoint) Held {
	opened, err := e.Open(d.o.Keys)
	if err == nil {
		_, err = opened.Keys(d.clock.Now())
	}
	if err != nil {
		return Held{Ours: "its secrets cannot be used: " + text.Spaced(err.Error())}
	}
	return Held{Ours: d.faults.why(e), Failing: d.breakers.failing(e)}
}

// sparedUntil is when a delivery ends that waits for its endpoint's breaker.
// While that is open attempts are not spent, so a number of attempts alone would
// never end it: it ends when its schedule would have at the latest, and a while.
func sparedUntil(b Budget, timeout time.Duration) time.Time {
	if until := retry.AttemptsUntil(b); !until.IsZero() {
		return until
	}
	return b.FirstAt.Add(b.Policy.Longest(timeout)).Add(sparedFor)
}

// budgetOf is what the delivery may spend now: a change of the endpoint's policy
// or event type's policy takes effect at the next attempt.
func budgetOf(delivery delivery.Delivery, endpoint *registry.Endpoint, rules []*registry.EventType) Budget {
	policy, _ := registry.ResolvePolicy(registry.Question{Type: delivery.Type, DeliverBy: delivery.DeliverBy,
		OwedAt: delivery.OwedAt, Endpoint: endpoint, Rules: rules})
	return Budget{Policy: policy, FirstAt: delivery.OwedAt, DeliverBy: delivery.DeliverBy,
		EverResponded: delivery.Responded}
}
