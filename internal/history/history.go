// Package history answers control's questions about the past from the ledger
// in ClickHouse.
package history

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/control"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/record"
)

// History is a control.Ledger.
type History struct{ db *ledger.DB }

// New answers from db.
func New(db *ledger.DB) History { return History{db} }

// Event returns what is on record of an event.
func (h History) Event(ctx context.Context, id string) (control.EventRecord, bool, error) {
	e, ok, err := h.db.Event(ctx, id)
	return control.EventRecord{ID: e.EventID, Tenant: e.Tenant, Type: e.EventType, State: e.State,
		Timestamp: e.EventAt, StoredAt: e.StoredAt, Seq: e.EventSeq, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
		DeliverBy: e.DeliverBy, DataDigest: e.DataDigest, DataBytes: int(e.DataBytes), Endpoints: int(e.Endpoints),
		Reason: e.Reason, Detail: e.Detail}, ok, err
}

// Deliveries returns one page of deliveries.
func (h History) Deliveries(ctx context.Context, f control.DeliveryFilter, cursor string, limit int) (control.DeliveryPage, error) {
	after, err := decode(cursor)
	if err != nil {
		return control.DeliveryPage{}, err
	}
	// One more than asked for tells whether there is a next page.
	list, err := h.db.Deliveries(ctx, ledger.DeliveryQuery{Tenant: f.Tenant, EventID: f.EventID, EndpointID: f.EndpointID,
		EventType: f.EventType, State: f.State, Since: f.Since, Until: f.Until, After: after, Limit: limit + 1})
	if err != nil {
		return control.DeliveryPage{}, err
	}
	var page control.DeliveryPage
	if len(list) > limit {
		list = list[:limit]
		page.Next = encode(list[limit-1].Place())
	}
	for _, d := range list {
		page.Deliveries = append(page.Deliveries, control.Delivery{EventID: d.EventID, EndpointID: d.EndpointID, Tenant: d.Tenant,
			EventType: d.EventType, State: d.State, Attempts: int(d.AttemptCount), ReplayID: d.ReplayID, OwedAt: d.OwedAt,
			DeliverBy: d.DeliverBy, NextAttemptAt: d.NextAttemptAt, SucceededAt: d.SucceededAt, DeadLetteredAt: d.DeadLetteredAt,
			CancelledAt: d.CancelledAt, Reason: d.Reason, PayloadDigest: d.PayloadDigest})
	}
	return page, nil
}

// Attempts returns a delivery's attempts, in order.
func (h History) Attempts(ctx context.Context, eventID, endpointID string) ([]record.Record, error) {
	return h.db.Attempts(ctx, eventID, endpointID)
}

// A cursor is the place of the last row of a page, opaque to callers.

func encode(p ledger.Place) string {
	b, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decode(cursor string) (ledger.Place, error) {
	var p ledger.Place
	if cursor == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, &p) != nil || p == (ledger.Place{}) {
		return p, control.ErrBadCursor
	}
	return p, nil
}
