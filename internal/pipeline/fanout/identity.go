package fanout

import (
	"context"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// reading is a message of EVENTS, as far as it can be read.
type reading struct {
	tenant    string
	event     envelope.Event
	rejection *eventlog.Rejection // nil: it is a valid event
}

func read(m stage.Message) (r reading) {
	r.tenant, r.event, r.rejection = eventlog.Parse(m.Subject, m.Header, m.Data)
	return r
}

// owner is the event to which the id of m belongs, if that is another one: the
// first in the order of EVENTS. Every fanout comes to the same answer, whenever it
// looks, for as long as EVENTS holds the owner.
func (f *Fanout) owner(ctx context.Context, m stage.Message, r reading) (*eventlog.Owner, error) {
	if r.rejection != nil {
		return nil, nil // it owns nothing and asks for nothing
	}
	if err := f.ids.Reach(ctx, m.Seq, m.StoredAt); err != nil {
		return nil, err
	}
	return f.stored.Owner(ctx, f.ids, r.tenant, r.event.ID, m.Seq)
}

// disown keeps it of an event whose id is in use: see eventlog.Log.Disown. It is
// kept before the event is acknowledged: after a crash, again.
func (f *Fanout) disown(ctx context.Context, m stage.Message, first record.Record) error {
	if first.Kind != record.EventRejected || first.Reason != string(outcome.ReasonIDInUse) {
		return nil
	}
	if _, refused := eventlog.Refused(m.Header); refused {
		return nil // it never was in the order of those that may own the id
	}
	return f.stored.Disown(ctx, m.Seq)
}
