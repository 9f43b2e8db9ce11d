package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/streams"
)

// maxTargets keeps one replay's message well under what NATS takes.
const maxTargets = 10_000

// ReplayRequest asks for a past event to be sent again.
type ReplayRequest struct {
	EventID string `json:"event_id"`
	// Tenant of the event. Optional, unless several have an event of this id.
	Tenant string `json:"tenant"`
	// EndpointID: to this endpoint alone, which need not have been owed the
	// event. Empty: to every endpoint that was.
	EndpointID string `json:"endpoint_id"`
	Actor      string `json:"actor"`  // who asks
	Reason     string `json:"reason"` // why
}

// Replay is a replay that will happen.
type Replay struct {
	ID      string    `json:"id"` // rpl_ + ULID
	EventID string    `json:"event_id"`
	Tenant  string    `json:"tenant"`
	Targets []string  `json:"targets"` // endpoint ids
	Skipped []Skipped `json:"skipped"`
}

// Skipped is an endpoint that a replay leaves out, and why.
type Skipped struct {
	EndpointID string `json:"endpoint_id"`
	Code       Code   `json:"code"` // pending, or the code of the error that naming the endpoint would give
	Reason     string `json:"reason"`
	// NextAttemptAt is when a pending delivery is due, if that is known.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
}

// CodePending says that a delivery is still being attempted.
const CodePending Code = "pending"

// Replay sends a past event again, with its original id. It returns once the
// request is stored; each request that is stored is carried out.
func (c *Control) Replay(ctx context.Context, r ReplayRequest) (Replay, error) {
	if err := errors.Join(checkActor(r.Actor), checkReason(r.Reason, true)); err != nil {
		return Replay{}, rejected(err)
	}
	rec, err := c.event(ctx, r.Tenant, r.EventID)
	if err != nil {
		return Replay{}, err
	}
	if rec.State == EventRejected {
		return Replay{}, failure(CodeNothingToReplay, "event %s was rejected (%s); what was published cannot be sent to "+
			"anybody", rec.ID, rec.Reason)
	}
	if rec.Contradicts() {
		return Replay{}, failure(CodeIDInUse, "different events stand under the id %s, and receivers may know either: to "+
			"send one of them, publish it under an id of its own; see: waybill event show %s", rec.ID, rec.ID)
	}
	if _, err := c.stored(ctx, rec); err != nil {
		return Replay{}, err
	}
	owed, err := c.owed(ctx, rec, r)
	if err != nil {
		return Replay{}, err
	}
	targets, skipped, err := c.targets(ctx, rec, r, owed)
	if err != nil {
		return Replay{}, err
	}
	now := c.o.Now().UTC()
	req := replay.Request{ID: ids.New(ids.Replay, now), Tenant: rec.Tenant, EventID: rec.ID, EventSeq: rec.Seq,
		Targets: targets, Actor: r.Actor, Reason: r.Reason, RequestedAt: now}
	if err := c.publishReplay(ctx, req); err != nil {
		return Replay{}, err
	}
	out := Replay{ID: req.ID, EventID: rec.ID, Tenant: rec.Tenant, Skipped: skipped}
	for _, t := range targets {
		out.Targets = append(out.Targets, t.EndpointID)
	}
	return out, nil
}

// owed returns the event's deliveries; only the named endpoint's if one is named.
// Of its tenant alone: once the dedupe window is over, an id can come again in
// another one.
func (c *Control) owed(ctx context.Context, rec EventRecord, r ReplayRequest) ([]Delivery, error) {
	var all []Delivery
	filter, cursor := DeliveryFilter{Tenant: rec.Tenant, EventID: r.EventID, EndpointID: r.EndpointID}, ""
	for {
		page, err := c.Deliveries(ctx, filter, cursor, MaxPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Deliveries...)
		if len(all) > maxTargets {
			return nil, invalid("endpoint_id", "event %s was owed to more than %d endpoints; replay it to one endpoint at a time", r.EventID, maxTargets)
		}
		if page.Next == "" {
			return all, nil
		}
		cursor = page.Next
	}
}

func (c *Control) targets(ctx context.Context, rec EventRecord, r ReplayRequest, owed []Delivery) ([]replay.Target,
	[]Skipped, error) {
	if r.EndpointID != "" && len(owed) == 0 {
		// Never owed it, which is no obstacle: the operator decides.
		owed = []Delivery{{EventID: rec.ID, EndpointID: r.EndpointID, State: "none"}}
	}
	if len(owed) == 0 {
		return nil, nil, failure(CodeNothingToReplay, "event %s was owed to no endpoint; name one to send it to", rec.ID)
	}
	var targets []replay.Target
	skipped := []Skipped{}
	for _, d := range owed {
		why, err := c.obstacle(ctx, rec, d)
		if err != nil {
			return nil, nil, err
		}
		if why == nil {
			targets = append(targets, replay.Target{EndpointID: d.EndpointID, Attempts: d.Attempts})
			continue
		}
		if r.EndpointID != "" && why.Code != CodePending {
			return nil, nil, why
		}
		skipped = append(skipped, Skipped{EndpointID: d.EndpointID, Code: why.Code, Reason: why.Error(),
			NextAttemptAt: d.NextAttemptAt})
	}
	if len(targets) == 0 {
		return nil, nil, failure(CodeNothingToReplay, "nothing to replay: %s%s", skipped[0].Reason, others(len(skipped)-1))
	}
	return targets, skipped, nil
}

func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more endpoints)", n)
}

// obstacle says why a delivery is not replayed; err is a failure to find out.
func (c *Control) obstacle(ctx context.Context, rec EventRecord, d Delivery) (why *Error, err error) {
	// A replay that is under way is no obstacle: a second one was asked for.
	if d.State == outcome.StatePending && d.ReplayID == "" {
		due := "its first attempt is about to start"
		if !d.NextAttemptAt.IsZero() {
			due = "its next attempt is due at " + d.NextAttemptAt.UTC().Format(time.RFC3339)
		}
		return &Error{Code: CodePending, Err: fmt.Errorf("the delivery of %s to %s is still pending: %s", rec.ID,
			d.EndpointID, due)}, nil
	}
	_, err = c.receiver(ctx, d.EndpointID, rec.Tenant)
	var known *Error
	if errors.As(err, &known) && known.Code != CodeUnavailable {
		return known, nil
	}
	return nil, err
}

func (c *Control) publishReplay(ctx context.Context, req replay.Request) error {
	body, err := req.Encode()
	if err != nil {
		return rejected(err)
	}
	m := nats.NewMsg(streams.ReplaySubject(req.Tenant))
	m.Data = body
	m.Header.Set(jetstream.MsgIDHeader, req.ID)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.js.PublishMsg(ctx, m, jetstream.WithExpectStream(streams.Replays)); err != nil {
		return &Error{Code: CodeUnavailable, Err: fmt.Errorf("replay %s is not known to be stored: %w; before asking "+
			"again, look whether it happened: waybill delivery show %s", req.ID, err, req.EventID)}
	}
	return nil
}
