package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

// admission is what a delivery has on its way to an attempt: what the steps before
// have found, and what they have taken, which close gives back.
type admission struct {
	message  stage.Message
	delivery delivery.Delivery
	terms
	permit *permit   // of the breaker
	slot   *slot     // of the endpoint's requests in flight
	turn   time.Time // of its rate limit; zero: it has none
}

// close gives back what no attempt has used.
func (a *admission) close() {
	if a.permit != nil {
		a.permit.abandon()
	}
	a.slot.release(0)
}

// next is what a step of the admission comes to: the next step, or the end of it
// with a settlement.
type next struct {
	settlement stage.Settlement
	settled    bool
}

// admitted goes on with the next step.
var admitted = next{}

// settledWith ends the admission.
func settledWith(s stage.Settlement, err error) (next, error) { return next{s, true}, err }

// steps are what stands between a delivery and its attempt, in their order. What
// takes something (a permit, a slot) comes after what only asks. A delivery may
// have waited for its slot, so the first two are asked once more: the endpoint as
// it is now counts, and the time that is left now.
var steps = []func(*Dispatcher, context.Context, *admission) (next, error){
	(*Dispatcher).endpointIsThere, // enabled, and time is left; or the delivery ends
	(*Dispatcher).secretsOpen,     // or it waits for the key
	(*Dispatcher).requestsCanBeMade,
	(*Dispatcher).breakerPermits,
	(*Dispatcher).rateAllows,
	(*Dispatcher).slotIsFree,
	(*Dispatcher).endpointIsThere,
	(*Dispatcher).secretsOpen,
	(*Dispatcher).turnStillCounts,
}

// deliver takes a delivery through the steps, and makes the attempt.
func (d *Dispatcher) deliver(ctx context.Context, m stage.Message, owed delivery.Delivery) (stage.Settlement, error) {
	a := &admission{message: m, delivery: owed}
	defer a.close()
	for _, step := range steps {
		if n, err := step(d, ctx, a); err != nil || n.settled {
			return n.settlement, err
		}
	}
	return d.attempt(ctx, a)
}

// endpointIsThere: the endpoint may be called, and the budget allows an attempt.
func (d *Dispatcher) endpointIsThere(ctx context.Context, a *admission) (n next, err error) {
	if a.terms, err = d.termsOf(ctx, a.delivery); err != nil {
		return n, err
	}
	if a.over != nil {
		a.slot.release(0)
		return settledWith(d.giveUp(ctx, a))
	}
	return admitted, nil
}

// secretsOpen: the request can be signed, and carry what it must. If not, the
// delivery is put off before a number is claimed, so that it costs no attempt.
func (d *Dispatcher) secretsOpen(ctx context.Context, a *admission) (next, error) {
	if a.locked == nil {
		return admitted, nil
	}
	a.slot.release(0)
	return settledWith(d.awaitKey(ctx, a))
}

// requestsCanBeMade: nothing on this side keeps requests to the endpoint from being made.
func (d *Dispatcher) requestsCanBeMade(ctx context.Context, a *admission) (next, error) {
	if until, _ := d.faults.wait(a.endpoint); !until.IsZero() {
		return settledWith(d.hold(ctx, a, until, deferFault))
	}
	return admitted, nil
}

// breakerPermits: the endpoint's breaker is closed, or this attempt is its probe.
func (d *Dispatcher) breakerPermits(ctx context.Context, a *admission) (next, error) {
	permit, back := d.breakers.allow(a.endpoint, a.delivery.EventID+"/"+a.delivery.Replay)
	if permit == nil {
		return settledWith(d.hold(ctx, a, d.clock.Now().Add(time.Until(back)), deferBreaker))
	}
	a.permit = permit
	return admitted, nil
}

// slotIsFree waits in memory for one of the requests that the endpoint may have in
// flight, if that harms nobody.
func (d *Dispatcher) slotIsFree(ctx context.Context, a *admission) (next, error) {
	parked, ok := d.slots.acquire(ctx, a.endpoint.ID, a.endpoint.MaxInFlight)
	if !ok {
		return settledWith(d.deferFor(ctx, a, parked, deferCap))
	}
	a.slot = &slot{of: d.slots, endpoint: a.endpoint.ID}
	return admitted, nil
}

// rateAllows waits for the moment at which an endpoint with a rate limit may be
// called. When that is not soon, the delivery is deferred to come back then.
func (d *Dispatcher) rateAllows(ctx context.Context, a *admission) (next, error) {
	limit := a.endpoint.MaxPerSecond
	if limit == 0 {
		return admitted, nil
	}
	turn, at, usable := a.delivery.Turn, time.Time{}, false
	if !turn.IsZero() && a.delivery.TurnOf == limit {
		at, usable = d.rates.use(a.delivery.EndpointID, limit, turn, d.clock.Now())
	}
	if !usable {
		until, err := retry.AttemptsUntil(a.budget), error(nil)
		if turn, err = d.rates.take(ctx, a.endpoint, until); err != nil {
			return next{}, err
		}
		if turn.IsZero() {
			// Those that find no turn come back at different times, and find different ones.
			back := time.Duration((0.5 + d.o.Random()/2) * float64(turnHorizon))
			return settledWith(d.deferUntil(ctx, a, d.clock.Now().Add(back), until, deferRate))
		}
		if turn.Sub(d.clock.Now()) > turnEarly && !a.delivery.Fifo { // the head of an order waits where it is
			return settledWith(d.deferToTurn(ctx, a.delivery, turn, limit))
		}
		if at, usable = d.rates.use(a.delivery.EndpointID, limit, turn, d.clock.Now()); !usable {
			return settledWith(stage.Later(0), nil)
		}
	}
	if !stage.Pause(ctx, at.Sub(d.clock.Now())) {
		return settledWith(stage.Later(0), nil)
	}
	a.turn = turn
	return admitted, nil
}

// turnStillCounts: the turn has not passed while the delivery waited for its slot.
// If it has, the delivery takes a new one.
func (d *Dispatcher) turnStillCounts(_ context.Context, a *admission) (next, error) {
	if !a.turn.IsZero() && d.clock.Now().Sub(a.turn) > turnGrace {
		return settledWith(stage.Later(0), nil)
	}
	return admitted, nil
}
