package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

const (
	// keyPause is how long a delivery waits for the secrets key that its endpoint
	// needs: an operator's time, not a machine's. Nothing is spent meanwhile.
	keyPause = 15 * time.Second
	// transientPause hands a message back when the pipeline itself, not the
	// receiver, is in the way.
	transientPause = time.Second
	// afterwardsBound is how long what follows an attempt (its record, the
	// next message) may take once a stop has cut the attempt short.
	afterwardsBound = 5 * time.Second
)

// Deliver is the one door: first attempts, retries and replays all enter here.
// It makes at most one request, and returns once everything that follows from
// it is stored.
func (d *Dispatcher) Deliver(ctx context.Context, m stage.Message) stage.Settlement {
	delivery, err := delivery.Parse(m.Header, m.Data)
	if err != nil {
		// Not one of ours: nothing is owed. The line is the record of it.
		d.log.Error().Err(err).Str("subject", m.Subject).Uint64("seq", m.Seq).Msg(logevent.DeliveryMalformed)
		return stage.Drop("malformed")
	}
	delivery = wellFormed(delivery)
	if delivery.Fifo {
		if delivery, err = d.fifoHeads.resume(ctx, delivery); err != nil {
			d.log.Warn().Err(err).Str("event_id", delivery.EventID).Msg(logevent.DeliveryHandedBack)
			return stage.Later(transientPause)
		}
	}
	if wait := d.waitFor(m, delivery); wait > 0 {
		return stage.Later(wait)
	}
	delivery.HeldSince = heldSince(m, delivery)
	key := delivery.EndpointID + "/" + delivery.EventID + "/" + delivery.Replay
	if !d.inHand.hold(key) {
		return stage.Later(transientPause) // a second message for it is in hand here
	}
	defer d.inHand.release(key)
	d.late.hold(&delivery)
	defer d.late.release(&delivery)

	s, err := d.deliver(ctx, m, delivery)
	if err != nil {
		d.log.Warn().Err(err).Str("event_id", delivery.EventID).Str("endpoint_id",
			delivery.EndpointID).Msg(logevent.DeliveryHandedBack)
		return stage.Later(transientPause)
	}
	return s
}

// giveUp ends a delivery without another attempt: unless one was made that is
// not settled, because whoever made it died or is being overtaken. The number is
// claimed as for an attempt, so that nobody makes one later.
func (d *Dispatcher) giveUp(ctx context.Context, a *admission) (stage.Settlement, error) {
	delivery := a.delivery
	mine := d.newClaim(delivery, a.endpoint, 0)
	mine.Void, mine.Why = a.over.Reason, a.over.Why
	number, prior, err := d.claim(ctx, delivery, mine)
	if err != nil {
		return stage.Settlement{}, err
	}
	if prior != nil {
		return d.resume(ctx, delivery, a.endpoint, number, *prior, a.budget)
	}
	return stage.Done(), d.deadLetter(ctx, delivery, a.endpoint, *a.over)
}

// heldSince is when somebody else can first have claimed the number that a
// message asks for: since the message was stored, or as the delivery says, which may
// have been in another message before; if it says nothing, since it is owed. When
// it is due says nothing: of a delivery that is replayed meanwhile, the replay
// takes the same numbers.
func heldSince(m stage.Message, delivery delivery.Delivery) time.Time {
	since := delivery.HeldSince
	if since.IsZero() {
		since = delivery.OwedAt
	}
	if stored := m.HeldSince(); stored.Before(since) {
		since = stored
	}
	return since
}

// receiver finds the endpoint, or the decision that follows from its state.
func (d *Dispatcher) receiver(ctx context.Context, delivery delivery.Delivery) (*registry.Endpoint, *Decision, error) {
	endpoint, ok, err := d.view.Current(ctx, delivery.EndpointID)
	if err != nil {
		return nil, nil, err
	}
	if !ok || endpoint.State != registry.Enabled {
		// The delivery ends here unless that is news of the past: ask.
		if err := d.view.Fresh(ctx); err != nil {
			return nil, nil, err
		}
		endpoint, ok = d.view.Get(delivery.EndpointID)
	}
	reason := outcome.Reason("")
	switch {
	case !ok || endpoint.State == registry.Deleted:
		reason = outcome.ReasonEndpointDeleted
	case endpoint.State == registry.Disabled:
		reason = outcome.ReasonEndpointDisabled
	default:
		return endpoint, nil, nil
	}
	decision := Undeliverable(reason)
	return endpoint, &decision, nil
}

// attempt claims the next number, makes the request, and stores what follows.
// The slot is given back as soon as the endpoint is done with.
func (d *Dispatcher) attempt(ctx context.Context, a *admission) (stage.Settlement, error) {
	delivery, endpoint, budget, timeout := a.delivery, a.endpoint, a.budget, a.timeout
	event, err := envelope.Parse(delivery.Event)
	if err != nil {
		a.slot.release(0)
		over := Undeliverable(outcome.ReasonInvalidEvent)
		a.over = &over
		return d.giveUp(ctx, a)
	}
	keys, n, err := d.keysNow(ctx, a)
	if err != nil || n.settled {
		return n.settlement, err
	}
	mine := d.newClaim(delivery, endpoint, timeout)
	number, prior, err := d.claim(ctx, delivery, mine)
	if err != nil {
		return stage.Settlement{}, err
	}
	if prior != nil {
		a.slot.release(0)
		return d.resume(ctx, delivery, endpoint, number, *prior, budget)
	}
	// From here on the attempt is on record as started. If the process dies
	// before its record is stored, whoever gets the message next finds the
	// claim, records the outcome as unknown, and goes on with the next number.
	signed := time.Now()
	body := event.AppendBody(nil, number)
	span := d.span(delivery, endpoint, number, mine)
	var result attempt.Result
	if header, err := d.header(within(span, delivery), a.terms, keys, signed, body); err != nil {
		result = attempt.NotMade(&attempt.Fault{Text: err.Error()})
	} else {
		result = d.try(ctx, mine, attempt.Request{URL: endpoint.URL, Body: body, Header: header, Timeout: timeout,
			Owner:      endpoint.ID,
			Connection: a.opened.Connection, OAuth2: a.opened.OAuth2, Sensitive: a.opened.Sensitive, Payload: event.Data})
	}
	a.slot.release(result.Total)
	facts, spent := result.Facts(), delivery.Spent
	if facts.Repeated = delivery.Repeated; !facts.Free() {
		spent++
	}
	a.permit.ended(facts)
	d.noteFault(delivery, endpoint, result)
	endSpan(span, result)
	ctx, cancel := afterwards(ctx)
	defer cancel()
	decision := Decide(facts, spent, budget, d.clock.Now(), d.o.Random)
	r := d.attemptRecord(delivery, a.terms, number, mine, sent{signed, keys, body}, result, decision)
	stands, recorded, err := d.claims.settle(ctx, r, mine.StartedAt)
	if err != nil {
		return stage.Settlement{}, err
	}
	if !recorded {
		// We were away so long that we were taken for dead: somebody else goes on.
		d.log.Warn().Str("event_id", delivery.EventID).Str("endpoint_id", delivery.EndpointID).Int("attempt", number).
			Str("outcome", r.Outcome).Str("on_record", stands.Outcome).Msg(logevent.AttemptOvertaken)
		return stage.Leave(), nil
	}
	d.observe(delivery, endpoint, &r, result)
	if facts.AboutReceiver() {
		d.health.Observe(endpoint, result.Class == outcome.ClassDelivered)
	}
	delivery.Spent, delivery.Responded = spent, delivery.Responded || result.GotResponse
	delivery.HeldSince = mine.StartedAt // a replay may take the next number while this attempt runs
	delivery.LastAttempt = span.Context(tracing.Context{}).Parent
	return d.conclude(ctx, delivery, endpoint, number, decision)
}

// try makes the request, unless so much time has passed since the claim was made
// (NATS was away, or this process) that nobody expects it any more.
func (d *Dispatcher) try(ctx context.Context, mine claim, r attempt.Request) attempt.Result {
	if time.Since(mine.began) <= claimBound {
		return d.destinations.Try(ctx, r)
	}
	late := attempt.Result{StartedAt: time.Now()}
	late.Fail(outcome.NotSent, attempt.NeverSent+"the attempt took too long to be claimed")
	return late
}

func (d *Dispatcher) newClaim(delivery delivery.Delivery, endpoint *registry.Endpoint, timeout time.Duration) claim {
	now := d.clock.Now().UTC()
	c := claim{began: time.Now(), AttemptID: ids.New(ids.Attempt, now), Dispatcher: d.o.Name, Boot: d.boot, StartedAt: now,
		LeaseUntil: now.Add(timeout + leaseGrace), Replay: delivery.Replay}
	if endpoint != nil {
		c.Revision, c.URL = endpoint.Revision, endpoint.SafeURL()
	}
	return c
}

// claim takes the next number that is free. A number that another chain took
// (a replay beside the first deliveries, or two replays at once) is passed
// over; one that this chain took before is returned as prior.
func (d *Dispatcher) claim(ctx context.Context, delivery delivery.Delivery, mine claim) (int, *claim, error) {
	for number := delivery.Attempts + 1; ; number++ {
		prior, err := d.claims.take(ctx, delivery.EventID, delivery.EndpointID, number, mine, delivery.HeldSince)
		if err != nil {
			return 0, nil, err
		}
		if prior == nil || prior.Replay == delivery.Replay {
			return number, prior, nil
		}
	}
}

// resume takes up a delivery whose attempt was started by somebody who is gone:
// no second request is made under that number. If the attempt's record exists,
// what it decided is carried out; if not, its outcome is recorded as unknown.
func (d *Dispatcher) resume(ctx context.Context, delivery delivery.Delivery, endpoint *registry.Endpoint, number int,
	prior claim, budget Budget) (stage.Settlement, error) {
	if prior.Void != "" { // it was given up, whatever has changed since
		return stage.Done(), d.deadLetter(ctx, delivery, endpoint, prior.ended())
	}
	predecessor := prior.Boot == d.boot || d.o.Exclusive && prior.Dispatcher == d.o.Name
	if left := d.mayRun(prior); left > 0 && !predecessor {
		return stage.Later(left), nil // it may be running still
	}
	decision := Decide(attempt.Facts{Outcome: outcome.Unknown}, delivery.Spent+1, budget, d.clock.Now(), d.o.Random)
	unknown := record.Record{
		ID: prior.AttemptID, Kind: record.Attempt, At: time.Now(), Tenant: delivery.Tenant, EventID: delivery.EventID,
		EndpointID: delivery.EndpointID,
		EventType:  delivery.Type, Attempt: number, ReplayID: delivery.Replay, StartedAt: prior.StartedAt,
		DeliverBy: delivery.DeliverBy,
		Outcome:   string(outcome.Unknown), Class: string(outcome.Unknown.Class()),
		Error: "the dispatcher ended during the attempt: the receiver may or may not have the request",
		URL:   prior.URL, EndpointRevision: prior.Revision, Dispatcher: prior.Dispatcher, Software: d.o.Software,
	}
	setDecision(&unknown, decision)
	r, mine, err := d.claims.settle(ctx, unknown, prior.StartedAt)
	if err != nil {
		return stage.Settlement{}, err
	}
	if mine {
		d.metrics.attempted(delivery, &r, d.clock)
	}
	d.log.Warn().Str("event_id", delivery.EventID).Str("endpoint_id", delivery.EndpointID).Int("attempt", number).
		Str("outcome", r.Outcome).Str("decision", r.Decision).Msg(logevent.AttemptResumed)
	delivery.Responded = delivery.Responded || r.Status > 0
	delivery.Spent += spentBy(r)
	delivery.HeldSince = prior.StartedAt // whoever made the attempt may have gone on
	return d.conclude(ctx, delivery, endpoint, number, decisionOf(r))
}

// afterwards is the context for what follows an attempt: a stop that cuts the
// attempt short MUST NOT keep its record from being stored.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	after, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(afterwardsBound, cancel)
		context.AfterFunc(after, func() { t.Stop() })
	})
	return after, func() { stop(); cancel() }
}
