// Package history answers control's questions about the past from the ledger
// in ClickHouse.
package history

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit/outside"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

// History is a control.Ledger.
type History struct {
	db     *ledger.DB
	events *outside.Events // nil: EVENTS is not asked
}

// New answers from db.
func New(db *ledger.DB) History { return History{db: db} }

// Asking lets evidence say whether EVENTS vouches for its event.
func (h History) Asking(events *outside.Events) History {
	h.events = events
	return h
}

// Event returns what is on record of an event.
func (h History) Event(ctx context.Context, tenant, id string) (control.EventRecord, bool, error) {
	if tenant == "" {
		tenants, err := h.db.EventTenants(ctx, id)
		if err != nil {
			return control.EventRecord{}, false, err
		}
		if len(tenants) > 1 {
			return control.EventRecord{}, false, refusal(control.CodeInvalid, "tenant",
				"event %s is on record for the tenants %s; name one", id, strings.Join(tenants, ", "))
		}
	}
	e, err := h.db.Event(ctx, tenant, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return control.EventRecord{}, false, nil
	}
	if err != nil {
		return control.EventRecord{}, false, err
	}
	contents, err := h.contents(ctx, e)
	return control.EventRecord{Contents: contents, ID: e.EventID, Tenant: e.Tenant, Type: e.EventType, State: e.State,
		Timestamp: orZero(e.EventAt), StoredAt: orZero(e.StoredAt), Seq: e.EventSeq, SubjectType: e.SubjectType,
		SubjectID: e.SubjectID,
		DeliverBy: orZero(e.DeliverBy), DataDigest: e.DataDigest, DataBytes: int(e.DataBytes), Endpoints: int(e.Endpoints),
		Reason: e.Reason, Detail: e.Detail}, err == nil, err
}

// contents are what came in under an event's id, if that is more than one event.
func (h History) contents(ctx context.Context, e ledger.Event) ([]control.EventContent, error) {
	list, err := h.db.Contents(ctx, e.Tenant, e.EventID)
	if err != nil || len(list) < 2 {
		return nil, err
	}
	var out []control.EventContent
	for _, c := range list {
		out = append(out, control.EventContent{State: c.State, Type: c.EventType, DataDigest: c.DataDigest, Seq: c.EventSeq,
			StoredAt: c.StoredAt.UTC(),
			Times:    int(c.Times), Deliveries: int(c.Owed), Reason: c.Reason})
	}
	return out, nil
}

// Deliveries returns one page of deliveries.
func (h History) Deliveries(ctx context.Context, f control.DeliveryFilter, cursor string,
	limit int) (control.DeliveryPage, error) {
	list, next, err := h.db.Deliveries(ctx, ledger.DeliveryFilter{Tenant: f.Tenant, EventID: f.EventID,
		EndpointID: f.EndpointID,
		EventType:  f.EventType, State: f.State, Reason: f.Reason, From: f.Since, To: f.Until}, cursor, limit)
	if errors.Is(err, ledger.ErrBadCursor) {
		return control.DeliveryPage{}, control.ErrBadCursor
	}
	page := control.DeliveryPage{Next: next}
	for _, d := range list {
		page.Deliveries = append(page.Deliveries,
			control.Delivery{EventID: d.EventID, EndpointID: d.EndpointID, Tenant: d.Tenant,
				EventType: d.EventType, State: d.State, Attempts: int(d.AttemptCount), ReplayID: d.ReplayID,
				OwedAt:    orZero(d.OwedAt),
				DeliverBy: orZero(d.DeliverBy), NextAttemptAt: orZero(d.NextAttemptAt), SucceededAt: orZero(d.SucceededAt),
				DeadLetteredAt: orZero(d.DeadLetteredAt), CancelledAt: orZero(d.CancelledAt), Reason: d.Reason,
				PayloadDigest: d.PayloadDigest})
	}
	return page, err
}

// Attempts returns a delivery's attempts, in order.
func (h History) Attempts(ctx context.Context, eventID, endpointID string) ([]record.Record, error) {
	return h.db.AttemptRecords(ctx, eventID, endpointID)
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// DeadLetters returns one page of dead letters.
func (h History) DeadLetters(ctx context.Context, f control.DeadLetterFilter, cursor string,
	limit int) (control.DeadLetterPage, error) {
	list, next, err := h.db.DeadLetters(ctx, ledger.DeadLetterFilter{Tenant: f.Tenant, EndpointID: f.EndpointID,
		EventID: f.EventID,
		Reason:  f.Reason, Resolution: f.Resolution, From: f.Since, To: f.Until}, cursor, limit)
	if errors.Is(err, ledger.ErrBadCursor) {
		return control.DeadLetterPage{}, control.ErrBadCursor
	}
	page := control.DeadLetterPage{Next: next}
	for _, d := range list {
		out := control.DeadLetter{Tenant: d.Tenant, EventID: d.EventID, EndpointID: d.EndpointID, EventType: d.EventType,
			ReplayID: d.ReplayID,
			Reason:   d.Reason, Detail: d.Detail, Attempts: int(d.Attempts), DeadLetteredAt: d.DeadLetteredAt.UTC(),
			DeliverBy:   orZero(d.DeliverBy),
			EscalatedAt: orZero(d.EscalatedAt), EscalatedInTime: d.EscalatedInTime, IncidentID: d.IncidentID, Owner: d.Owner,
			OwnedAt:    orZero(d.OwnedAt),
			Resolution: d.Resolution, ResolvedAt: orZero(d.ResolvedAt), ResolvedBy: d.ResolvedBy,
			ResolutionReason: d.ResolutionReason}
		if d.Resolution == "delivered" {
			out.ResolvedAt = orZero(d.SucceededAt)
		}
		page.DeadLetters = append(page.DeadLetters, out)
	}
	return page, err
}

// EndpointChanges returns an endpoint's revisions, oldest first.
func (h History) EndpointChanges(ctx context.Context, endpointID string) ([]control.EndpointChange, error) {
	list, err := h.db.EndpointChanges(ctx, endpointID)
	out := make([]control.EndpointChange, len(list))
	for i, c := range list {
		out[i] = control.EndpointChange{At: c.At.UTC(), Action: c.Action, Types: c.Types}
	}
	return out, err
}

// Pending counts the deliveries that wait for an endpoint.
func (h History) Pending(ctx context.Context, endpointID string) (control.Pending, error) {
	n, err := h.db.Pending(ctx, endpointID)
	return control.Pending(n), err
}

// EventsNotOwedTo lists a tenant's events that were never owed to the endpoint.
func (h History) EventsNotOwedTo(ctx context.Context, tenant, endpointID string, from, to time.Time, after uint64,
	limit int) ([]control.UnowedEvent, error) {
	list, err := h.db.EventsNotOwedTo(ctx, tenant, endpointID, from, to, after, limit)
	out := make([]control.UnowedEvent, len(list))
	for i, u := range list {
		out[i] = control.UnowedEvent{Idx: u.Idx, ID: u.EventID, Type: u.EventType,
			State: strings.TrimPrefix(u.Kind, "event."),
			At:    u.At.UTC(), StoredAt: orZero(u.StoredAt)}
	}
	return out, err
}
