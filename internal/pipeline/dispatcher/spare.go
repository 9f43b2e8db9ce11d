package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/budget"
	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
)

// sparedFor is how long after its schedule a delivery may wait for an endpoint
// whose breaker is open, when its policy bounds the number of attempts only: two
// of the longest pauses between probes.
const sparedFor = 2 * maxProbePause

// spare asks whether requests can be made at all, and the endpoint's breaker. When
// not, the task is moved aside to the next try, or to the end of its budget if
// that comes first, and ok is false.
func (d *Dispatcher) spare(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect) (permit *pass, s stage.Settlement, ok bool, err error) {
	if until, _ := d.faults.wait(p.endpoint); !until.IsZero() {
		s, err = d.hold(ctx, m, task, p, until, asideFault)
		return nil, s, false, err
	}
	permit, back := d.breakers.allow(p.endpoint, task.EventID+"/"+task.Replay)
	if permit == nil {
		s, err = d.hold(ctx, m, task, p, d.clock.Now().Add(time.Until(back)), asideBreaker)
		return nil, s, false, err
	}
	return permit, s, true, nil
}

// hold puts a delivery off for which no attempt can be made before a time. It
// ends when its time is over, whatever its policy bounds: no end is put off for ever.
func (d *Dispatcher) hold(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect, at time.Time, why string) (stage.Settlement, error) {
	until := sparedUntil(p.budget, p.endpoint.Timeout)
	if !d.clock.Now().Before(until) { // only an end of our own can have passed: of others, DecideBefore knows
		over := DecideHeld(task.Spent, p.budget.EverResponded, d.heldBy(p.endpoint))
		p.over = &over
		return d.giveUp(ctx, m, task, p)
	}
	return d.postpone(ctx, m, task, at, until, why)
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
	if until := budget.AttemptsUntil(b); !until.IsZero() {
		return until
	}
	return b.FirstAt.Add(b.Policy.Longest(timeout)).Add(sparedFor)
}

// breakerChanged tells operators that an endpoint's breaker opened or closed.
func (d *Dispatcher) breakerChanged(endpoint string, open bool) {
	if open {
		d.metrics.breakers.Inc()
		d.log.Warn().Str("endpoint_id", endpoint).Msg("breaker.opened")
		return
	}
	d.metrics.breakers.Dec()
	d.log.Info().Str("endpoint_id", endpoint).Msg("breaker.closed")
}

// budgetOf is what the delivery may spend now: a change of the endpoint's policy
// or event type's policy takes effect at the next attempt.
func budgetOf(task delivery.Delivery, endpoint *registry.Endpoint, rules []*registry.EventType) Budget {
	policy, _ := registry.ResolvePolicy(registry.Question{Type: task.Type, DeliverBy: task.DeliverBy, OwedAt: task.OwedAt, Endpoint: endpoint, Rules: rules})
	return Budget{Policy: policy, FirstAt: task.OwedAt, DeliverBy: task.DeliverBy, EverResponded: task.Responded}
}
