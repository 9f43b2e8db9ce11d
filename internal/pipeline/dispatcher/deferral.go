package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// Why a delivery is moved aside.
const (
	deferCap     = "cap"     // the endpoint has as many requests under way as it may
	deferRate    = "rate"    // it has had as many in a second as it may
	deferBreaker = "breaker" // it has kept failing
	deferKey     = "key"     // its secrets do not open
	deferFault   = "fault"   // no request can be made, for another reason of ours
)

// deferToTurn stores the delivery anew with its turn, which is its own whoever takes it up.
func (d *Dispatcher) deferToTurn(ctx context.Context, delivery delivery.Delivery, turn time.Time,
	limit float64) (stage.Settlement, error) {
	d.metrics.deferred.WithLabelValues(deferRate).Inc()
	delivery.Turn, delivery.TurnOf, delivery.Due, delivery.Wait = turn, limit, turn.Add(-turnEarly),
		max(turn.Sub(d.clock.Now())-turnEarly, 1)
	return stage.Done(), d.later(ctx, delivery, nil)
}

// deferUntil moves a delivery aside until a time, or until its budget ends, when it
// comes back to be given up: whatever it waits for, no end passes silently.
func (d *Dispatcher) deferUntil(ctx context.Context, a *admission, at, until time.Time, why string) (stage.Settlement,
	error) {
	if !until.IsZero() && until.Before(at) {
		at = until
	}
	return d.deferFor(ctx, a, at.Sub(d.clock.Now()), why)
}

// deferFor takes a delivery whose endpoint cannot be called now out of the way of
// the others: from DELIVERIES into RETRY, where it waits.
func (d *Dispatcher) deferFor(ctx context.Context, a *admission, parked time.Duration, why string) (stage.Settlement,
	error) {
	delivery := a.delivery
	d.metrics.deferred.WithLabelValues(why).Inc()
	if waiting := streams.RetrySubject(streams.Partition(delivery.EndpointID, d.o.Partitions),
		delivery.EndpointID); a.message.Subject == waiting || delivery.Fifo {
		return stage.Later(parked), nil
	}
	delivery.Due, delivery.Wait, delivery.Turn, delivery.TurnOf = d.clock.Now().Add(parked), max(parked, 1), time.Time{}, 0
	return stage.Done(), d.later(ctx, delivery, nil)
}

// sparedFor is how long after its schedule a delivery may wait for an endpoint
// whose breaker is open, when its policy bounds the number of attempts only: two
// of the longest pauses between probes.
const sparedFor = 2 * maxProbePause

// hold puts a delivery off for which no attempt can be made before a time. It
// ends when its time is over, whatever its policy bounds: no end is put off for ever.
func (d *Dispatcher) hold(ctx context.Context, a *admission, at time.Time, why string) (stage.Settlement, error) {
	until := sparedUntil(a.budget, a.endpoint.Timeout)
	if !d.clock.Now().Before(until) { // only an end of our own can have passed: of others, DecideBefore knows
		over := DecideHeld(a.delivery.Spent, a.budget.EverResponded, d.heldBy(a.endpoint))
		a.over = &over
		return d.giveUp(ctx, a)
	}
	return d.deferUntil(ctx, a, at, until, why)
}

// awaitKey puts off a delivery whose request cannot be signed, or not carry what
// it must: before a number is claimed, so that it costs no attempt.
func (d *Dispatcher) awaitKey(ctx context.Context, a *admission) (stage.Settlement, error) {
	d.metrics.locked.Inc()
	d.log.Error().Err(a.locked).Str("event_id", a.delivery.EventID).Str("endpoint_id",
		a.delivery.EndpointID).Msg(logevent.DeliveryWaitsForKey)
	return d.hold(ctx, a, d.clock.Now().Add(keyPause), deferKey)
}
