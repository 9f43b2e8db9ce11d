package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/budget"
	"github.com/waybill-dev/waybill/internal/delivery"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/internal/stage"
)

// sparedFor is how long after its schedule a delivery may wait for an endpoint
// whose breaker is open, when its policy bounds the number of attempts only: two
// of the longest pauses between probes.
const sparedFor = 2 * maxProbePause

// spare asks the endpoint's breaker. When it is open the task is moved aside to
// the next probe, or to the end of its budget if that comes first, and ok is false.
func (d *Dispatcher) spare(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect) (permit *pass, s stage.Settlement, ok bool, err error) {
	permit, back := d.breakers.allow(p.endpoint, task.EventID+"/"+task.Replay)
	if permit != nil {
		return permit, s, true, nil
	}
	until := sparedUntil(p.budget, p.endpoint.Timeout)
	if !d.clock.Now().Before(until) { // only an end of our own can have passed: of others, DecideBefore knows
		over := deadLetter(ReasonEndpointUnreachable, "the endpoint kept failing until the schedule's time was over, and no response ever came")
		if p.budget.EverResponded {
			over = deadLetter(ReasonAttemptsExhausted, "the endpoint kept failing until the schedule's time was over")
		}
		p.over = &over
		s, err = d.giveUp(ctx, m, task, p)
		return nil, s, false, err
	}
	s, err = d.postpone(ctx, m, task, back, until, asideBreaker)
	return nil, s, false, err
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
