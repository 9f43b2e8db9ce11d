package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// DefaultPage and MaxPage bound one page of a listing.
	DefaultPage = 50
	MaxPage     = 500
	// ledgerTimeout bounds one question to the ledger.
	ledgerTimeout = 15 * time.Second
	maxCursor     = 512
	// wantedFor bounds the wait for the sink before a question to the ledger. It
	// covers an insert on a busy machine; a sink that is behind is not waited for.
	wantedFor = 400 * time.Millisecond
)

// ledger is for whoever reads it: first the sink stores what LEDGER has, if that
// is soon done. So what just happened is found.
func (c *Control) ledger(ctx context.Context) (Ledger, error) {
	if c.o.Ledger == nil {
		return nil, failure(CodeNoLedger, "this needs the ledger, and no ClickHouse is configured; set --clickhouse "+
			"(WAYBILL_CLICKHOUSE)")
	}
	ctx, cancel := context.WithTimeout(ctx, wantedFor)
	defer cancel()
	_, _ = c.o.NC.RequestWithContext(ctx, streams.LedgerWanted, nil) // without an answer, what is there is read
	return c.o.Ledger, nil
}

func ledgerFailed(err error) error {
	if errors.Is(err, ErrBadCursor) {
		return &Error{Code: CodeInvalid, Field: "cursor", Err: err}
	}
	return &Error{Code: CodeUnavailable, Err: fmt.Errorf("the ledger did not answer: %w; is ClickHouse running, and is "+
		"--clickhouse right?", err)}
}

// EventDetails is an event as the ledger has it and, where asked for, as EVENTS
// still holds it.
type EventDetails struct {
	EventRecord
	// Event is the producer's JSON. Absent when not asked for, or when EVENTS
	// no longer holds it: then Missing says why.
	Event   json.RawMessage `json:"event,omitempty"`
	Missing string          `json:"event_missing,omitempty"`
}

// Event returns what is on record of an event, with its content on request.
// Without a tenant the id must be that of one tenant alone.
func (c *Control) Event(ctx context.Context, tenant, id string, content bool) (EventDetails, error) {
	rec, err := c.event(ctx, tenant, id)
	if err != nil {
		return EventDetails{}, err
	}
	out := EventDetails{EventRecord: rec}
	if !content {
		return out, nil
	}
	m, err := c.stored(ctx, rec)
	var known *Error
	switch {
	case errors.As(err, &known) && known.Code == CodeEventExpired:
		out.Missing = known.Error()
	case err != nil:
		return EventDetails{}, err
	case !json.Valid(m.Body):
		out.Missing = "what was published is not JSON"
	default:
		out.Event = m.Body
	}
	return out, nil
}

func (c *Control) event(ctx context.Context, tenant, id string) (EventRecord, error) {
	l, err := c.ledger(ctx)
	if err != nil {
		return EventRecord{}, err
	}
	if err := envelope.ValidateID(id); err != nil {
		return EventRecord{}, rejected(err)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	rec, ok, err := l.Event(ctx, tenant, id)
	var known *Error
	if errors.As(err, &known) {
		return EventRecord{}, known
	}
	if err != nil {
		return EventRecord{}, ledgerFailed(err)
	}
	if !ok {
		return EventRecord{}, failure(CodeNotFound, "event %s is not in the ledger; one that was just published is there "+
			"within seconds", id)
	}
	return rec, nil
}

// stored returns what EVENTS holds of an event, and only if it is that event.
func (c *Control) stored(ctx context.Context, rec EventRecord) (eventlog.Message, error) {
	m, err := c.log.Read(ctx, rec.Seq)
	if errors.Is(err, eventlog.ErrNotStored) || err == nil && !holds(m, rec) {
		return m, failure(CodeEventExpired, "event %s is on record, but %s no longer holds it (position %d): it is older "+
			"than the stream's retention, or the stream was made anew; ask its producer to publish it again", rec.ID,
			streams.Events, rec.Seq)
	}
	if err != nil {
		return m, failed(err)
	}
	return m, nil
}

func holds(m eventlog.Message, rec EventRecord) bool {
	tenant, _, err := streams.ParseEventSubject(m.Subject)
	if err != nil || tenant != rec.Tenant {
		return false
	}
	if id := m.Header.Get(jetstream.MsgIDHeader); id != "" && !streams.IsEventMsgID(id, tenant, rec.ID) {
		return false
	}
	ev, err := envelope.Parse(m.Body)
	return err == nil && ev.ID == rec.ID && (rec.DataDigest == "" || envelope.DigestHex(ev.Data) == rec.DataDigest)
}

// Deliveries lists deliveries, those owed last first. limit 0 is DefaultPage.
func (c *Control) Deliveries(ctx context.Context, f DeliveryFilter, cursor string, limit int) (DeliveryPage, error) {
	l, err := c.ledger(ctx)
	if err != nil {
		return DeliveryPage{}, err
	}
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 1 || limit > MaxPage {
		return DeliveryPage{}, invalid("limit", "%d; want 1 to %d", limit, MaxPage)
	}
	if len(cursor) > maxCursor {
		return DeliveryPage{}, ledgerFailed(ErrBadCursor)
	}
	if err := f.validate(); err != nil {
		return DeliveryPage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	page, err := l.Deliveries(ctx, f, cursor, limit)
	if err != nil {
		return DeliveryPage{}, ledgerFailed(err)
	}
	if page.Deliveries == nil {
		page.Deliveries = []Delivery{}
	}
	return page, nil
}

func (f DeliveryFilter) validate() error {
	if f.Tenant != "" {
		if err := envelope.ValidateTenant(f.Tenant); err != nil {
			return rejected(err)
		}
	}
	if f.EventID != "" {
		if err := envelope.ValidateID(f.EventID); err != nil {
			return &Error{Code: CodeInvalid, Field: "event_id", Err: err}
		}
	}
	if f.EventType != "" {
		if err := envelope.ValidateType(f.EventType); err != nil {
			return rejected(err)
		}
	}
	states := []string{outcome.StatePending, outcome.StateDelivered, outcome.StateDeadLettered, outcome.StateCancelled}
	if f.State != "" && !slices.Contains(states, f.State) {
		return invalid("state", "%.20q; want %s, %s, %s or %s", f.State, states[0], states[1], states[2], states[3])
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return invalid("until", "%s is not after since", f.Until.Format(time.RFC3339))
	}
	return nil
}

// DeliveryDetails is a delivery with every attempt on record.
type DeliveryDetails struct {
	Delivery
	History []record.Record `json:"attempts"`
}

// Delivery returns one delivery with its attempts.
func (c *Control) Delivery(ctx context.Context, eventID, endpointID string) (DeliveryDetails, error) {
	if eventID == "" || endpointID == "" {
		return DeliveryDetails{}, invalid("event_id", "a delivery is named by its event and its endpoint; one is missing")
	}
	page, err := c.Deliveries(ctx, DeliveryFilter{EventID: eventID, EndpointID: endpointID}, "", 1)
	if err != nil {
		return DeliveryDetails{}, err
	}
	if len(page.Deliveries) == 0 {
		return DeliveryDetails{}, failure(CodeNotFound, "no delivery of event %s to endpoint %.64q is on record; see: "+
			"waybill delivery show %s", eventID, endpointID, eventID)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	attempts, err := c.o.Ledger.Attempts(ctx, eventID, endpointID)
	if err != nil {
		return DeliveryDetails{}, ledgerFailed(err)
	}
	if attempts == nil {
		attempts = []record.Record{}
	}
	return DeliveryDetails{Delivery: page.Deliveries[0], History: attempts}, nil
}
