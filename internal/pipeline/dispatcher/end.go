package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
)

// conclude stores what the decision asks for. It may be done twice: every
// message it publishes has an id that follows from the decision.
func (d *Dispatcher) conclude(ctx context.Context, delivery delivery.Delivery, endpoint *registry.Endpoint, number int,
	decision Decision) (stage.Settlement, error) {
	delivery.Attempts, delivery.Turn, delivery.TurnOf = number, time.Time{}, 0
	switch decision.Verdict {
	case outcome.VerdictDelivered:
		return stage.Done(), nil
	case outcome.VerdictRetry:
		delivery.Due, delivery.Wait, delivery.Repeated = decision.RetryAt, decision.Wait, decision.Repeat
		if delivery.Fifo { // it stays at the head
			return stage.Later(d.waitFor(stage.Message{}, delivery)), d.fifoHeads.store(ctx, delivery)
		}
		return stage.Done(), d.later(ctx, delivery, endpoint)
	case outcome.VerdictDeadLetter:
		if decision.DisableEndpoint && endpoint != nil {
			if err := d.disable(ctx, endpoint); err != nil {
				return stage.Settlement{}, err
			}
		}
		return stage.Done(), d.deadLetter(ctx, delivery, endpoint, decision)
	}
	return stage.Settlement{}, fmt.Errorf("no such verdict: %q", decision.Verdict)
}

// later stores a delivery for a later attempt. One that can never be stored ends:
// to try again would go on for ever, and nobody would be told.
func (d *Dispatcher) later(ctx context.Context, delivery delivery.Delivery, endpoint *registry.Endpoint) error {
	_, err := d.pub.Publish(ctx, delivery.Later(d.o.Partitions))
	if !errors.Is(err, stage.ErrPermanent) {
		return err
	}
	d.log.Error().Err(err).Str("event_id", delivery.EventID).Str("endpoint_id",
		delivery.EndpointID).Msg(logevent.DeliveryNotStorable)
	return d.deadLetter(ctx, delivery, endpoint, notStorable(err))
}

// deadLetter puts on record that the delivery ended unfulfilled, and asks for
// people to be told.
func (d *Dispatcher) deadLetter(ctx context.Context, delivery delivery.Delivery, endpoint *registry.Endpoint,
	decision Decision) error {
	r := record.Record{
		ID:   record.EndID(record.DeliveryDeadLetter, delivery.EventID, delivery.EndpointID, delivery.Replay),
		Kind: record.DeliveryDeadLetter,
		At:   time.Now(), Tenant: delivery.Tenant, EventID: delivery.EventID, EndpointID: delivery.EndpointID,
		EventType: delivery.Type,
		ReplayID:  delivery.Replay, DeliverBy: delivery.DeliverBy, Reason: string(decision.Reason), Detail: decision.Why,
		Attempts:   delivery.Attempts,
		Dispatcher: d.o.Name, Software: d.o.Software,
	}
	if endpoint != nil {
		r.EndpointRevision, r.URL = endpoint.Revision, endpoint.SafeURL()
	}
	m, err := r.Message()
	if err != nil {
		return err
	}
	// Both are stored before the delivery's message is acknowledged: no dead
	// letter is on record that nobody will be told of.
	tell, err := escalation.Of(r).Message()
	if err != nil {
		return err
	}
	if _, err := d.pub.PublishAll(ctx, m, tell); err != nil {
		return err
	}
	d.metrics.deadLetters.WithLabelValues(r.Reason).Inc()
	d.log.Warn().Str("tenant", r.Tenant).Str("event_id", r.EventID).Str("event_type", r.EventType).Str("endpoint_id",
		r.EndpointID).
		Str("reason", r.Reason).Str("detail", r.Detail).Int("attempts", r.Attempts).Msg(logevent.DeliveryDeadLettered)
	return nil
}

// disable stops calling an endpoint that said it is gone, unless somebody has
// changed it since.
func (d *Dispatcher) disable(ctx context.Context, endpoint *registry.Endpoint) error {
	err := d.store.DisableUnchanged(ctx, endpoint, outcome.ReasonEndpointGone, "it answered 410 Gone")
	if errors.Is(err, registry.ErrConflict) || errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	return err
}
