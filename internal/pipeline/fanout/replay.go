package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// replayEvent carries out a replay: it puts on record who asked and why, then
// owes the event to the endpoints again, with its original id and a new budget.
func (f *Fanout) replayEvent(ctx context.Context, m stage.Message) stage.Settlement {
	req, err := replay.Decode(m.Data)
	if err != nil {
		// Control validates before it publishes: somebody else wrote this.
		f.log.Error().Err(err).Str("subject", m.Subject).Msg(logevent.ReplayMalformed)
		return stage.Drop("malformed")
	}
	if err := f.view.Fresh(ctx); err != nil {
		return f.later(err, req.EventID)
	}
	event, err := f.storedEvent(ctx, req)
	if err != nil && !errors.Is(err, errEventGone) && !errors.Is(err, errOtherContent) {
		return f.later(err, req.EventID)
	}
	x := expandReplay(req, event, err, f.view, time.Now())
	if err := f.publishReplay(ctx, m, x); err != nil {
		return f.later(err, req.EventID)
	}
	f.log.Info().Str("replay_id", req.ID).Str("tenant", req.Tenant).Str("event_id", req.EventID).Str("actor", req.Actor).
		Str("reason", req.Reason).Int("endpoints", len(x.deliveries)).Msg(logevent.Replay)
	return stage.Done()
}

// publishReplay stores the requests, then what each became, then the deliveries
// of those that stand as owed: a replay that was expanded before, by somebody
// who may have died then, stays what it became, however its endpoint has changed.
func (f *Fanout) publishReplay(ctx context.Context, m stage.Message, x expansion) error {
	var decided []record.Record
	x.records = slices.DeleteFunc(x.records, func(r record.Record) bool {
		if r.Kind == record.ReplayRequested {
			return false
		}
		decided = append(decided, r)
		return true
	})
	if err := f.store(ctx, x.records); err != nil {
		return err
	}
	for _, r := range decided {
		stands, _, err := f.state(ctx, r, m.HeldSince())
		if err != nil {
			return err
		}
		if stands.Kind != record.DeliveryOwed {
			x.deliveries = slices.DeleteFunc(x.deliveries,
				func(d delivery.Delivery) bool { return d.EndpointID == stands.EndpointID })
		}
	}
	x.heldSince(m.HeldSince())
	return f.publish(ctx, expansion{deliveries: x.deliveries})
}

var (
	errEventGone = errors.New("EVENTS no longer holds the event")
	// errOtherContent: receivers know another event under this id.
	errOtherContent = errors.New("the id belongs to another event")
	errNoEndpoint   = errors.New("no such endpoint of this tenant")
)

// storedEvent reads the producer's message again: of those under the event's id,
// the one that receivers got.
func (f *Fanout) storedEvent(ctx context.Context, req replay.Request) ([]byte, error) {
	m, err := f.stored.Read(ctx, req.EventSeq)
	if errors.Is(err, eventlog.ErrNotStored) {
		return nil, errEventGone
	}
	if err != nil {
		return nil, err
	}
	tenant, e, rejection := eventlog.Parse(m.Subject, m.Header, m.Body)
	if rejection != nil || e.ID != req.EventID || tenant != req.Tenant {
		return nil, fmt.Errorf("%w: message %d is another one", errEventGone, req.EventSeq)
	}
	if err := f.ids.Reach(ctx, m.Seq, m.StoredAt); err != nil {
		return nil, err
	}
	owner, err := f.stored.Owner(ctx, f.ids, tenant, e.ID, eventlog.Latest)
	switch {
	case err != nil:
		return nil, err
	case owner == nil:
		return nil, errEventGone // it expired between the two looks
	case owner.Seq != m.Seq && !eventlog.ContentOf(m.Subject, m.Header, e).Same(owner.Content()):
		return nil, fmt.Errorf("%w: number %d came first", errOtherContent, owner.Seq)
	}
	return owner.Body, nil
}

// expandReplay gives one replay.requested record per endpoint, and what follows
// from it: a delivery owed again, or the end of the replay with a reason.
func expandReplay(req replay.Request, event []byte, gone error, endpoints matcher, now time.Time) expansion {
	var out expansion
	for _, target := range req.Targets {
		out.records = append(out.records, requested(req, target))
		ep, ok := endpoints.Get(target.EndpointID)
		reason, why := outcome.Reason(""), error(nil)
		switch {
		case !ok || ep.Tenant != req.Tenant || ep.State == registry.Deleted:
			reason, why = outcome.ReasonEndpointDeleted, errNoEndpoint
		case ep.State == registry.Disabled:
			reason, why = outcome.ReasonEndpointDisabled, errors.New("the endpoint is disabled")
		case errors.Is(gone, errOtherContent):
			reason, why = outcome.ReasonIDInUse, gone
		case gone != nil:
			reason, why = outcome.ReasonEventExpired, gone
		}
		d := delivery.Delivery{
			EventID: req.EventID, EndpointID: target.EndpointID, Tenant: req.Tenant, EventSeq: req.EventSeq, Replay: req.ID,
			OwedAt: req.RequestedAt, Attempts: target.Attempts, Event: event, Fifo: ok && ep.Ordering == registry.FIFO,
		}
		if e, err := envelope.Parse(event); err == nil {
			d.Type = e.Type
			if e.DeliverBy.After(req.RequestedAt) {
				d.DeliverBy = e.DeliverBy // the promise still stands; a past one is not made again
			}
		}
		// Also where it is cancelled: it may have been owed before.
		if event != nil {
			out.deliveries = append(out.deliveries, d)
		}
		if why != nil {
			out.records = append(out.records, cancelled(req, target, reason, why, now))
			continue
		}
		out.records = append(out.records, owedRecord(d, ep, now))
	}
	return out
}

func requested(req replay.Request, target replay.Target) record.Record {
	return record.Record{
		ID:   fmt.Sprintf("%s/%s/%s", record.ReplayRequested, req.ID, target.EndpointID),
		Kind: record.ReplayRequested, At: req.RequestedAt, Tenant: req.Tenant, EventID: req.EventID,
		EndpointID: target.EndpointID,
		EventSeq:   req.EventSeq, ReplayID: req.ID, Actor: req.Actor, Reason: req.Reason, Attempts: target.Attempts,
	}
}

func cancelled(req replay.Request, target replay.Target, reason outcome.Reason, why error,
	now time.Time) record.Record {
	return record.Record{
		ID:   record.OwedID(req.EventID, target.EndpointID, req.ID),
		Kind: record.DeliveryCancelled, At: now, Tenant: req.Tenant, EventID: req.EventID, EndpointID: target.EndpointID,
		ReplayID: req.ID, Reason: string(reason), Detail: why.Error(), Attempts: target.Attempts,
	}
}
