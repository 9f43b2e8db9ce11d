package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/budget"
	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/streams"
)

// Why a task is moved aside.
const (
	asideCap     = "cap"     // the endpoint has as many requests under way as it may
	asideRate    = "rate"    // it has had as many in a second as it may
	asideBreaker = "breaker" // it has kept failing
	asideKey     = "key"     // its secrets do not open
	asideFault   = "fault"   // no request can be made, for another reason of ours
)

// awaitTurn waits for the moment at which an endpoint with a rate limit may be
// called. When that is not soon the task is moved aside to come back then, and
// ok is false.
func (d *Dispatcher) awaitTurn(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect) (turn time.Time, s stage.Settlement, ok bool, err error) {
	limit := p.endpoint.MaxPerSecond
	if limit == 0 {
		return time.Time{}, s, true, nil
	}
	turn = task.Turn
	at, usable := time.Time{}, false
	if !turn.IsZero() && task.TurnOf == limit {
		at, usable = d.rates.use(task.EndpointID, limit, turn, d.clock.Now())
	}
	until := budget.AttemptsUntil(p.budget)
	if !usable {
		if turn, err = d.rates.take(ctx, p.endpoint, until); err != nil {
			return turn, s, false, err
		}
		if turn.IsZero() {
			// Those that find no turn come back at different times, and find different ones.
			back := time.Duration((0.5 + d.o.Random()/2) * float64(turnHorizon))
			s, err = d.postpone(ctx, m, task, d.clock.Now().Add(back), until, asideRate)
			return turn, s, false, err
		}
		if turn.Sub(d.clock.Now()) > turnEarly && !task.Fifo { // a head waits in its place
			s, err = d.moveToTurn(ctx, task, turn, limit)
			return turn, s, false, err
		}
		if at, usable = d.rates.use(task.EndpointID, limit, turn, d.clock.Now()); !usable {
			return turn, stage.Later(0), false, nil
		}
	}
	if !stage.Pause(ctx, at.Sub(d.clock.Now())) {
		return turn, stage.Later(0), false, nil
	}
	return turn, s, true, nil
}

// moveToTurn stores the task anew with its turn, which is its own whoever takes it up.
func (d *Dispatcher) moveToTurn(ctx context.Context, task delivery.Delivery, turn time.Time, limit float64) (stage.Settlement, error) {
	d.metrics.aside.WithLabelValues(asideRate).Inc()
	task.Turn, task.TurnOf, task.Due, task.Wait = turn, limit, turn.Add(-turnEarly), max(turn.Sub(d.clock.Now())-turnEarly, 1)
	return stage.Done(), d.later(ctx, task, nil)
}

// lateFor says that a turn has passed while the task waited for its place.
func lateFor(turn, now time.Time) bool { return !turn.IsZero() && now.Sub(turn) > turnGrace }

// postpone moves a task aside until a time, or until its budget ends, when it
// comes back to be given up: whatever it waits for, no end passes silently.
func (d *Dispatcher) postpone(ctx context.Context, m stage.Message, task delivery.Delivery, at, until time.Time, why string) (stage.Settlement, error) {
	if !until.IsZero() && until.Before(at) {
		at = until
	}
	return d.moveAside(ctx, m, task, at.Sub(d.clock.Now()), why)
}

// moveAside takes a task whose endpoint cannot be called now out of the way of
// the others: from DELIVERIES into RETRY, where it waits.
func (d *Dispatcher) moveAside(ctx context.Context, m stage.Message, task delivery.Delivery, parked time.Duration, why string) (stage.Settlement, error) {
	d.metrics.aside.WithLabelValues(why).Inc()
	if waiting := streams.RetrySubject(streams.Partition(task.EndpointID, d.o.Partitions), task.EndpointID); m.Subject == waiting || task.Fifo {
		return stage.Later(parked), nil
	}
	task.Due, task.Wait, task.Turn, task.TurnOf = d.clock.Now().Add(parked), max(parked, 1), time.Time{}, 0
	return stage.Done(), d.later(ctx, task, nil)
}
