package dispatcher

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/budget"
	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
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
	task, err := delivery.Parse(m.Header, m.Data)
	if err != nil {
		// Not one of ours: nothing is owed. The line is the record of it.
		d.log.Error().Err(err).Str("subject", m.Subject).Uint64("seq", m.Seq).Msg("delivery.malformed")
		return stage.Drop("malformed")
	}
	task = wellFormed(task)
	if task.Fifo {
		if task, err = d.heads.resume(ctx, task); err != nil {
			d.log.Warn().Err(err).Str("event_id", task.EventID).Msg("delivery.handed_back")
			return stage.Later(transientPause)
		}
	}
	if wait := d.waitFor(m, task); wait > 0 {
		return stage.Later(wait)
	}
	task.HeldSince = heldSince(m, task)
	if !d.gates.hold(task.EndpointID, task.EventID+"/"+task.Replay) {
		return stage.Later(transientPause) // a second message for it is in hand here
	}
	defer d.gates.release(task.EndpointID, task.EventID+"/"+task.Replay)
	d.late.hold(&task)
	defer d.late.release(&task)

	s, err := d.deliver(ctx, m, task)
	if err != nil {
		d.log.Warn().Err(err).Str("event_id", task.EventID).Str("endpoint_id", task.EndpointID).Msg("delivery.handed_back")
		return stage.Later(transientPause)
	}
	return s
}

func (d *Dispatcher) deliver(ctx context.Context, m stage.Message, task delivery.Delivery) (stage.Settlement, error) {
	p, err := d.prospectOf(ctx, task)
	if err != nil {
		return stage.Settlement{}, err
	}
	if p.over != nil {
		return d.giveUp(ctx, m, task, p)
	}
	if p.locked != nil {
		return d.awaitKey(ctx, m, task, p)
	}
	permit, s, ok, err := d.spare(ctx, m, task, p)
	if err != nil || !ok {
		return s, err
	}
	defer permit.abandon()
	turn, s, ok, err := d.awaitTurn(ctx, m, task, p)
	if err != nil || !ok {
		return s, err
	}
	parked, ok := d.gates.enter(ctx, task.EndpointID, p.endpoint.MaxInFlight)
	if !ok {
		return d.moveAside(ctx, m, task, parked, asideCap)
	}
	at := &place{gates: d.gates, endpoint: task.EndpointID}
	defer at.leave(0)
	// It may have waited for its place: the endpoint as it is now counts, and
	// the time that is left now.
	if p, err = d.prospectOf(ctx, task); err != nil {
		return stage.Settlement{}, err
	}
	if p.over != nil {
		at.leave(0)
		return d.giveUp(ctx, m, task, p)
	}
	if p.locked != nil {
		at.leave(0)
		return d.awaitKey(ctx, m, task, p)
	}
	if lateFor(turn, d.clock.Now()) {
		return stage.Later(0), nil // to take a new turn
	}
	return d.attempt(ctx, m, task, p, at, permit)
}

// prospect is what an attempt that starts now may spend, or why there is none.
type prospect struct {
	endpoint *registry.Endpoint // nil when there never was one
	opened   *registry.Opened   // what its requests need, unless over or locked
	locked   error              // why it does not open
	budget   Budget
	timeout  time.Duration // above 0, unless over
	over     *Decision
}

func (d *Dispatcher) prospectOf(ctx context.Context, task delivery.Delivery) (p prospect, err error) {
	if p.endpoint, p.over, err = d.receiver(ctx, task); err != nil {
		return p, err
	}
	now := d.clock.Now()
	p.budget = budgetOf(task, p.endpoint, d.view.EventTypes(task.Tenant, task.Type))
	if p.over != nil {
		return p, nil
	}
	if over, ok := DecideBefore(p.budget, task.Spent, now, Held{}); !ok {
		if over.Reason == outcome.ReasonNotAttempted || over.Reason == outcome.ReasonDeadlineExceeded { // what held it is asked for only then
			over, _ = DecideBefore(p.budget, task.Spent, now, d.heldBy(p.endpoint))
		}
		p.over = &over
		return p, nil
	}
	p.timeout = budget.AttemptTimeout(p.budget, now, p.endpoint.Timeout)
	if p.opened, p.locked = p.endpoint.Open(d.o.Keys); p.locked == nil {
		_, p.locked = p.opened.Keys(now)
	}
	return p, nil
}

// awaitKey puts off a delivery whose request cannot be signed, or not carry what
// it must: before a number is claimed, so that it costs no attempt.
func (d *Dispatcher) awaitKey(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect) (stage.Settlement, error) {
	d.metrics.locked.Inc()
	d.log.Error().Err(p.locked).Str("event_id", task.EventID).Str("endpoint_id", task.EndpointID).Msg("delivery.waits_for_key")
	return d.hold(ctx, m, task, p, d.clock.Now().Add(keyPause), asideKey)
}

// giveUp ends a delivery without another attempt: unless one was made that is
// not settled, because whoever made it died or is being overtaken. The number is
// claimed as for an attempt, so that nobody makes one later.
func (d *Dispatcher) giveUp(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect) (stage.Settlement, error) {
	mine := d.newClaim(task, p.endpoint, 0)
	mine.Void, mine.Why = p.over.Reason, p.over.Why
	number, prior, err := d.claim(ctx, task, mine)
	if err != nil {
		return stage.Settlement{}, err
	}
	if prior != nil {
		return d.resume(ctx, task, p.endpoint, number, *prior, p.budget)
	}
	return stage.Done(), d.deadLetter(ctx, task, p.endpoint, *p.over)
}

// heldSince is when somebody else can first have claimed the number that a
// message asks for: since the message was stored, or as the task says, which may
// have been in another message before; if it says nothing, since it is owed. When
// it is due says nothing: of a delivery that is replayed meanwhile, the replay
// takes the same numbers.
func heldSince(m stage.Message, task delivery.Delivery) time.Time {
	since := task.HeldSince
	if since.IsZero() {
		since = task.OwedAt
	}
	if stored := m.HeldSince(); stored.Before(since) {
		since = stored
	}
	return since
}

// receiver finds the endpoint, or the decision that follows from its state.
func (d *Dispatcher) receiver(ctx context.Context, task delivery.Delivery) (*registry.Endpoint, *Decision, error) {
	endpoint, ok, err := d.view.Current(ctx, task.EndpointID)
	if err != nil {
		return nil, nil, err
	}
	if !ok || endpoint.State != registry.Enabled {
		// The delivery ends here unless that is news of the past: ask.
		if err := d.view.Fresh(ctx); err != nil {
			return nil, nil, err
		}
		endpoint, ok = d.view.Get(task.EndpointID)
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
// The place is given back as soon as the endpoint is done with.
func (d *Dispatcher) attempt(ctx context.Context, m stage.Message, task delivery.Delivery, p prospect, at *place, permit *pass) (stage.Settlement, error) {
	endpoint, budget, timeout := p.endpoint, p.budget, p.timeout
	event, err := envelope.Parse(task.Event)
	if err != nil {
		at.leave(0)
		over := Undeliverable(outcome.ReasonInvalidEvent)
		p.over = &over
		return d.giveUp(ctx, m, task, p)
	}
	keys, s, ok, err := d.ready(ctx, m, task, p)
	if err != nil || !ok {
		return s, err
	}
	mine := d.newClaim(task, endpoint, timeout)
	number, prior, err := d.claim(ctx, task, mine)
	if err != nil {
		return stage.Settlement{}, err
	}
	if prior != nil {
		at.leave(0)
		return d.resume(ctx, task, endpoint, number, *prior, budget)
	}
	// From here on the attempt is on record as started. If the process dies
	// before its record is stored, whoever gets the message next finds the
	// claim, records the outcome as unknown, and goes on with the next number.
	signed := time.Now()
	body := event.AppendBody(nil, number)
	span := d.span(task, endpoint, number, mine)
	var result attempt.Result
	if header, err := d.header(within(span, task), p, keys, signed, body); err != nil {
		result = attempt.NotMade(&attempt.Fault{Text: err.Error()})
	} else {
		result = d.try(ctx, mine, attempt.Request{URL: endpoint.URL, Body: body, Header: header, Timeout: timeout, Owner: endpoint.ID,
			Connection: p.opened.Connection, OAuth2: p.opened.OAuth2, Sensitive: p.opened.Sensitive, Payload: event.Data})
	}
	at.leave(result.Total)
	facts, spent := result.Facts(), task.Spent
	if facts.Repeated = task.Repeated; !facts.Free() {
		spent++
	}
	permit.ended(facts)
	d.noteFault(task, endpoint, result)
	endSpan(span, result)
	ctx, cancel := afterwards(ctx)
	defer cancel()
	decision := Decide(facts, spent, budget, d.clock.Now(), d.o.Random)
	r := d.attemptRecord(task, p, number, mine, sent{signed, keys, body}, result, decision)
	stands, recorded, err := d.claims.settle(ctx, r, mine.StartedAt)
	if err != nil {
		return stage.Settlement{}, err
	}
	if !recorded {
		// We were away so long that we were taken for dead: somebody else goes on.
		d.log.Warn().Str("event_id", task.EventID).Str("endpoint_id", task.EndpointID).Int("attempt", number).
			Str("outcome", r.Outcome).Str("on_record", stands.Outcome).Msg("attempt.overtaken")
		return stage.Leave(), nil
	}
	d.observe(task, endpoint, &r, result)
	if facts.AboutReceiver() {
		d.health.Observe(endpoint, result.Class == outcome.ClassDelivered)
	}
	task.Spent, task.Responded = spent, task.Responded || result.GotResponse
	task.HeldSince = mine.StartedAt // a replay may take the next number while this attempt runs
	task.LastAttempt = span.Context(tracing.Context{}).Parent
	return d.conclude(ctx, task, endpoint, number, decision)
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

func (d *Dispatcher) newClaim(task delivery.Delivery, endpoint *registry.Endpoint, timeout time.Duration) claim {
	now := d.clock.Now().UTC()
	c := claim{began: time.Now(), AttemptID: ids.New(ids.Attempt, now), Dispatcher: d.o.Name, Boot: d.boot, StartedAt: now,
		LeaseUntil: now.Add(timeout + leaseGrace), Replay: task.Replay}
	if endpoint != nil {
		c.Revision, c.URL = endpoint.Revision, endpoint.SafeURL()
	}
	return c
}

// claim takes the next number that is free. A number that another chain took
// (a replay beside the first deliveries, or two replays at once) is passed
// over; one that this chain took before is returned as prior.
func (d *Dispatcher) claim(ctx context.Context, task delivery.Delivery, mine claim) (int, *claim, error) {
	for number := task.Attempts + 1; ; number++ {
		prior, err := d.claims.take(ctx, task.EventID, task.EndpointID, number, mine, task.HeldSince)
		if err != nil {
			return 0, nil, err
		}
		if prior == nil || prior.Replay == task.Replay {
			return number, prior, nil
		}
	}
}

// resume takes up a delivery whose attempt was started by somebody who is gone:
// no second request is made under that number. If the attempt's record exists,
// what it decided is carried out; if not, its outcome is recorded as unknown.
func (d *Dispatcher) resume(ctx context.Context, task delivery.Delivery, endpoint *registry.Endpoint, number int, prior claim, budget Budget) (stage.Settlement, error) {
	if prior.Void != "" { // it was given up, whatever has changed since
		return stage.Done(), d.deadLetter(ctx, task, endpoint, prior.ended())
	}
	predecessor := prior.Boot == d.boot || d.o.Exclusive && prior.Dispatcher == d.o.Name
	if left := d.mayRun(prior); left > 0 && !predecessor {
		return stage.Later(left), nil // it may be running still
	}
	decision := Decide(attempt.Facts{Outcome: outcome.Unknown}, task.Spent+1, budget, d.clock.Now(), d.o.Random)
	unknown := record.Record{
		ID: prior.AttemptID, Kind: record.Attempt, At: time.Now(), Tenant: task.Tenant, EventID: task.EventID, EndpointID: task.EndpointID,
		EventType: task.Type, Attempt: number, ReplayID: task.Replay, StartedAt: prior.StartedAt, DeliverBy: task.DeliverBy,
		Outcome: string(outcome.Unknown), Class: string(outcome.Unknown.Class()),
		Error: "the dispatcher ended during the attempt: the receiver may or may not have the request",
		URL:   prior.URL, EndpointRevision: prior.Revision, Dispatcher: prior.Dispatcher, Software: d.o.Software,
	}
	setDecision(&unknown, decision)
	r, mine, err := d.claims.settle(ctx, unknown, prior.StartedAt)
	if err != nil {
		return stage.Settlement{}, err
	}
	if mine {
		d.metrics.attempted(task, &r, d.clock)
	}
	d.log.Warn().Str("event_id", task.EventID).Str("endpoint_id", task.EndpointID).Int("attempt", number).
		Str("outcome", r.Outcome).Str("decision", r.Decision).Msg("attempt.resumed")
	task.Responded = task.Responded || r.Status > 0
	task.Spent += spentBy(r)
	task.HeldSince = prior.StartedAt // whoever made the attempt may have gone on
	return d.conclude(ctx, task, endpoint, number, decisionOf(r))
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
