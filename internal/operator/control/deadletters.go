package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// DeadLetter is an obligation that was not met: why, who was told, who owns it,
// and its clock.
type DeadLetter struct {
	Tenant         string    `json:"tenant"`
	EventID        string    `json:"event_id"`
	EndpointID     string    `json:"endpoint_id"`
	EventType      string    `json:"event_type"`
	ReplayID       string    `json:"replay_id,omitempty"`
	Reason         string    `json:"reason"`
	Detail         string    `json:"detail,omitempty"`
	Attempts       int       `json:"attempts"`
	DeadLetteredAt time.Time `json:"dead_lettered_at"`
	DeliverBy      time.Time `json:"deliver_by,omitzero"`

	EscalatedAt     time.Time `json:"escalated_at,omitzero"` // when a channel first took the message
	EscalatedInTime bool      `json:"escalated_in_time"`
	IncidentID      string    `json:"incident_id,omitempty"`

	Owner   string    `json:"owner,omitempty"` // who took it last
	OwnedAt time.Time `json:"owned_at,omitzero"`

	// Resolution: open, replayed, delivered, "delivered before", resolved.
	Resolution       string    `json:"resolution"`
	ResolvedAt       time.Time `json:"resolved_at,omitzero"` // delivered after all, or said to be settled
	ResolvedBy       string    `json:"resolved_by,omitempty"`
	ResolutionReason string    `json:"resolution_reason,omitempty"`

	// OpenFor is how long the obligation was not met, until now or ResolvedAt;
	// LateBy how long after DeliverBy. Whole seconds.
	OpenFor Duration `json:"open_for"`
	LateBy  Duration `json:"late_by,omitzero"`
}

// clock fills OpenFor and LateBy.
func (d *DeadLetter) clock(now time.Time) {
	until := now
	if !d.ResolvedAt.IsZero() {
		until = d.ResolvedAt
	}
	d.OpenFor = Duration(max(until.Sub(d.DeadLetteredAt), 0).Truncate(time.Second))
	if !d.DeliverBy.IsZero() {
		d.LateBy = Duration(max(until.Sub(d.DeliverBy), 0).Truncate(time.Second))
	}
}

// Settled says that nothing is owed any more.
func (d DeadLetter) Settled() bool { return d.Resolution != "open" && d.Resolution != "replayed" }

// DeadLetterFilter narrows a listing. Zero fields do not.
type DeadLetterFilter struct {
	Tenant, EventID, EndpointID string
	Reason, Resolution          string
	Since, Until                time.Time // of the end
}

// DeadLetterPage is one page of a listing.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Next        string       `json:"next,omitempty"`
}

// DeadLetters returns one page of dead letters, the latest first.
func (c *Control) DeadLetters(ctx context.Context, f DeadLetterFilter, cursor string, limit int) (DeadLetterPage,
	error) {
	l, err := c.ledger(ctx)
	if err != nil {
		return DeadLetterPage{}, err
	}
	switch {
	case limit == 0:
		limit = DefaultPage
	case limit < 0 || limit > MaxPage:
		return DeadLetterPage{}, invalid("limit", "%d; want 1 to %d", limit, MaxPage)
	}
	if len(cursor) > maxCursor {
		return DeadLetterPage{}, ledgerFailed(ErrBadCursor)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	page, err := l.DeadLetters(ctx, f, cursor, limit)
	if err != nil {
		return DeadLetterPage{}, ledgerFailed(err)
	}
	if page.DeadLetters == nil {
		page.DeadLetters = []DeadLetter{}
	}
	for i := range page.DeadLetters {
		page.DeadLetters[i].clock(c.o.Now())
	}
	return page, nil
}

// DeadLetter returns the last dead letter of one event and endpoint.
func (c *Control) DeadLetter(ctx context.Context, eventID, endpointID string) (DeadLetter, error) {
	if err := envelope.ValidateID(eventID); err != nil {
		return DeadLetter{}, rejected(err)
	}
	if endpointID != "" && !ids.Valid(ids.Endpoint, endpointID) {
		return DeadLetter{}, invalid("endpoint_id", "%.64q is no endpoint id; see: waybill endpoint list", endpointID)
	}
	page, err := c.DeadLetters(ctx, DeadLetterFilter{EventID: eventID, EndpointID: endpointID}, "", MaxPage)
	if err != nil {
		return DeadLetter{}, err
	}
	switch {
	case len(page.DeadLetters) == 0:
		return DeadLetter{}, failure(CodeNotFound, "the ledger knows of no dead letter of event %s; one that has just "+
			"ended is there within seconds; see: waybill deadletter list", eventID)
	case endpointID == "":
		for _, d := range page.DeadLetters[1:] {
			if d.EndpointID != page.DeadLetters[0].EndpointID {
				return DeadLetter{}, invalid("endpoint_id", "event %s is a dead letter to more than one endpoint; name one: %s "+
					"or %s", eventID, page.DeadLetters[0].EndpointID, d.EndpointID)
			}
		}
	}
	return page.DeadLetters[0], nil
}

// AcknowledgeDeadLetter makes a named person the owner of a dead letter, and
// stops the messages about it where nothing else is part of its incident.
func (c *Control) AcknowledgeDeadLetter(ctx context.Context, eventID, endpointID, by, note string) (DeadLetter, error) {
	if err := errors.Join(checkText("by", "say who takes it", by, maxActor, true),
		checkText("note", "", note, maxReason, false)); err != nil {
		return DeadLetter{}, rejected(err)
	}
	d, err := c.DeadLetter(ctx, eventID, endpointID)
	if err != nil {
		return d, err
	}
	now := c.o.Now().UTC()
	r := d.record(record.EscalationAcked, record.AckedID(fmt.Sprintf("%s/%d", d.recordID(), now.UnixNano())), now, by)
	r.Detail = note
	if err := c.putOnRecord(ctx, r); err != nil {
		return d, err
	}
	if i, err := c.Escalation(ctx, d.recordID()); err == nil && i.State == escalation.Open && i.Count == 1 {
		var known *Error
		if _, err := c.AcknowledgeEscalation(ctx, i.ID, by, note); err != nil &&
			!(errors.As(err, &known) && known.Code == CodeConflict) {
			return d, err
		}
	}
	d.Owner, d.OwnedAt = by, now
	return d, nil
}

// ResolveDeadLetter puts on record that a dead letter is settled in another way
// than by delivery, or void, and why.
func (c *Control) ResolveDeadLetter(ctx context.Context, eventID, endpointID, by, reason string) (DeadLetter, error) {
	if err := errors.Join(checkText("by", "say who settles it", by, maxActor, true),
		checkReason(reason, true)); err != nil {
		return DeadLetter{}, rejected(err)
	}
	d, err := c.DeadLetter(ctx, eventID, endpointID)
	if err != nil {
		return d, err
	}
	if d.Settled() {
		return d, failure(CodeConflict, "the dead letter of %s to %s is settled already: %s", d.EventID, d.EndpointID,
			d.Resolution)
	}
	now := c.o.Now().UTC()
	r := d.record(record.OperatorAction, string(record.OperatorAction)+"/deadletter.resolved/"+d.recordID(), now, by)
	r.Action, r.Reason = "deadletter.resolved", reason
	if err := c.putOnRecord(ctx, r); err != nil {
		return d, err
	}
	d.Resolution, d.ResolvedAt, d.ResolvedBy, d.ResolutionReason = "resolved", now, by, reason
	d.clock(now)
	return d, nil
}

func (d DeadLetter) recordID() string {
	return record.EndID(record.DeliveryDeadLetter, d.EventID, d.EndpointID, d.ReplayID)
}

func (d DeadLetter) record(kind record.Kind, id string, at time.Time, by string) record.Record {
	return record.Record{ID: id, Kind: kind, At: at, Tenant: d.Tenant, EventID: d.EventID, EndpointID: d.EndpointID,
		EventType: d.EventType,
		ReplayID:  d.ReplayID, DeliverBy: d.DeliverBy, Reason: d.Reason, Actor: by, IncidentID: d.IncidentID}
}
