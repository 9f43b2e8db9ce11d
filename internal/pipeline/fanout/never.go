package fanout

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// decide puts on record what becomes of an event, and returns what stands. Where
// that can never be stored, the event is rejected with that for a reason, and
// people are told, as of every rejected event: to try again would go on for ever.
func (f *Fanout) decide(ctx context.Context, m stage.Message, r reading, x *expansion) (first record.Record, mine bool,
	err error) {
	if err = f.list(ctx, &x.records[0]); err == nil {
		first, mine, err = f.state(ctx, x.records[0], m.HeldSince())
	}
	if !errors.Is(err, stage.ErrPermanent) || x.records[0].Kind == record.EventRejected {
		return first, mine, err
	}
	f.log.Error().Err(err).Str("subject", m.Subject).Msg(logevent.EventNotStorable)
	*x = rejected(m, x.records[0].Tenant, r.event, outcome.ReasonNotStorable, err, time.Now())
	return f.state(ctx, x.records[0], m.HeldSince())
}

// hand stores messages of one event. A delivery that can never be stored ends as a
// dead letter, which people are told of; the others go their way.
func (f *Fanout) hand(ctx context.Context, msgs []*nats.Msg) error {
	_, err := f.pub.PublishAll(ctx, msgs...)
	if !errors.Is(err, stage.ErrPermanent) {
		return err
	}
	for _, m := range msgs {
		// Those that are stored already are recognised by their ids.
		_, err := f.pub.Publish(ctx, m)
		if errors.Is(err, stage.ErrPermanent) && m.Header.Get(streams.HeaderEndpoint) != "" {
			err = f.undeliverable(ctx, m, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// undeliverable ends a delivery that cannot be stored.
func (f *Fanout) undeliverable(ctx context.Context, m *nats.Msg, why error) error {
	r := record.Record{Kind: record.DeliveryDeadLetter, At: time.Now(), Tenant: m.Header.Get(streams.HeaderTenant),
		EventID:    m.Header.Get(streams.HeaderEvent),
		EndpointID: m.Header.Get(streams.HeaderEndpoint), EventType: m.Header.Get(streams.HeaderType),
		ReplayID: m.Header.Get(streams.HeaderReplay),
		Reason:   string(outcome.ReasonNotStorable), Detail: clip(safe(why), 500)}
	r.ID = record.EndID(r.Kind, r.EventID, r.EndpointID, r.ReplayID)
	end, err := r.Message()
	if err != nil {
		return err
	}
	tell, err := escalation.Of(r).Message()
	if err != nil {
		return err
	}
	f.log.Error().Err(why).Str("tenant", r.Tenant).Str("event_id", r.EventID).Str("endpoint_id",
		r.EndpointID).Msg(logevent.DeliveryNotStorable)
	_, err = f.pub.PublishAll(ctx, end, tell)
	return err
}
