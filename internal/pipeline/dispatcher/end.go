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
	"github.com/waybill-dev/waybill/internal/registry"
)

// conclude stores what the decision asks for. It may be done twice: every
// message it publishes has an id that follows from the decision.
func (d *Dispatcher) conclude(ctx context.Context, task delivery.Delivery, endpoint *registry.Endpoint, number int, decision Decision) (stage.Settlement, error) {
	task.Attempts, task.Turn, task.TurnOf = number, time.Time{}, 0
	switch decision.Verdict {
	case outcome.VerdictDelivered:
		return stage.Done(), nil
	case outcome.VerdictRetry:
		task.Due, task.Wait, task.Repeated = decision.RetryAt, decision.Wait, decision.Repeat
		if task.Fifo { // it stays at the head
			return stage.Later(d.waitFor(stage.Message{}, task)), d.heads.store(ctx, task)
		}
		return stage.Done(), d.later(ctx, task, endpoint)
	case outcome.VerdictDeadLetter:
		if decision.DisableEndpoint && endpoint != nil {
			if err := d.disable(ctx, endpoint); err != nil {
				return stage.Settlement{}, err
			}
		}
		return stage.Done(), d.deadLetter(ctx, task, endpoint, decision)
	}
	return stage.Settlement{}, fmt.Errorf("no such verdict: %q", decision.Verdict)
}

// later stores a delivery for a later attempt. One that can never be stored ends:
// to try again would go on for ever, and nobody would be told.
func (d *Dispatcher) later(ctx context.Context, task delivery.Delivery, endpoint *registry.Endpoint) error {
	_, err := d.pub.Publish(ctx, task.Later(d.o.Partitions))
	if !errors.Is(err, stage.ErrPermanent) {
		return err
	}
	d.log.Error().Err(err).Str("event_id", task.EventID).Str("endpoint_id", task.EndpointID).Msg("delivery.not_storable")
	return d.deadLetter(ctx, task, endpoint, notStorable(err))
}

// deadLetter puts on record that the delivery ended unfulfilled, and asks for
// people to be told.
func (d *Dispatcher) deadLetter(ctx context.Context, task delivery.Delivery, endpoint *registry.Endpoint, decision Decision) error {
	r := record.Record{
		ID: record.EndID(record.DeliveryDeadLetter, task.EventID, task.EndpointID, task.Replay), Kind: record.DeliveryDeadLetter,
		At: time.Now(), Tenant: task.Tenant, EventID: task.EventID, EndpointID: task.EndpointID, EventType: task.Type,
		ReplayID: task.Replay, DeliverBy: task.DeliverBy, Reason: string(decision.Reason), Detail: decision.Why, Attempts: task.Attempts,
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
	d.log.Warn().Str("tenant", r.Tenant).Str("event_id", r.EventID).Str("event_type", r.EventType).Str("endpoint_id", r.EndpointID).
		Str("reason", r.Reason).Str("detail", r.Detail).Int("attempts", r.Attempts).Msg("delivery.dead_lettered")
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
