package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// DeadLetter is a row of the view dead_letters.
type DeadLetter struct {
	Tenant            string     `ch:"tenant" json:"tenant"`
	EventID           string     `ch:"event_id" json:"event_id"`
	EndpointID        string     `ch:"endpoint_id" json:"endpoint_id"`
	EventType         string     `ch:"event_type" json:"event_type"`
	Idx               uint64     `ch:"idx" json:"idx"`
	DeadLetteredAt    time.Time  `ch:"dead_lettered_at" json:"dead_lettered_at"`
	ReplayID          string     `ch:"replay_id" json:"replay_id,omitempty"`
	Reason            string     `ch:"reason" json:"reason"`
	Attempts          int64      `ch:"attempts" json:"attempts"`
	DeliverBy         *time.Time `ch:"deliver_by" json:"deliver_by,omitempty"`
	Detail            string     `ch:"detail" json:"detail,omitempty"`
	EscalatedAt       *time.Time `ch:"escalated_at" json:"escalated_at,omitempty"`
	EscalationOutcome string     `ch:"escalation_outcome" json:"escalation_outcome,omitempty"`
	AcknowledgedAt    *time.Time `ch:"acknowledged_at" json:"acknowledged_at,omitempty"`
	AcknowledgedBy    string     `ch:"acknowledged_by" json:"acknowledged_by,omitempty"`
	// Owner is who acknowledged last.
	Owner           string     `ch:"owner" json:"owner,omitempty"`
	OwnedAt         *time.Time `ch:"owned_at" json:"owned_at,omitempty"`
	EscalatedInTime bool       `ch:"escalated_in_time" json:"escalated_in_time"`
	// Resolution: open, replayed (a replay is under way or ended without success),
	// delivered (by a replay, afterwards), delivered before, resolved (a person
	// said that the obligation is met or void: ResolvedBy, ResolutionReason).
	Resolution       string     `ch:"resolution" json:"resolution"`
	SucceededAt      *time.Time `ch:"succeeded_at" json:"succeeded_at,omitempty"`
	IncidentID       string     `ch:"incident_id" json:"incident_id,omitempty"`
	ResolvedAt       *time.Time `ch:"resolved_at" json:"resolved_at,omitempty"`
	ResolvedBy       string     `ch:"resolved_by" json:"resolved_by,omitempty"`
	ResolutionReason string     `ch:"resolution_reason" json:"resolution_reason,omitempty"`
}

// DeadLetterFilter narrows DeadLetters; an empty field does not.
type DeadLetterFilter struct {
	Tenant, EndpointID, EventID string
	Reason, Resolution          string
	// From and To bound when it was dead-lettered.
	From, To time.Time
}

// DeadLetters lists dead letters, the latest first. Cursor, next and short
// pages are as in Deliveries.
func (db *DB) DeadLetters(ctx context.Context, f DeadLetterFilter, cursor string, limit int) (page []DeadLetter,
	next string, err error) {
	limit = bounded(limit)
	before, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for range deliverySteps {
		var dead conditions
		dead.add("kind = 'delivery.dead_lettered' AND idx < ?", before)
		dead.equal("tenant", f.Tenant)
		dead.equal("endpoint_id", f.EndpointID)
		dead.equal("event_id", f.EventID)
		dead.equal("reason", f.Reason)
		dead.between("at", f.From, f.To)
		chunk := fmt.Sprintf("SELECT idx, event_id FROM records WHERE %s ORDER BY idx DESC LIMIT %d", dead.String(),
			deliveryChunk)
		var low, n uint64
		if err := db.conn.QueryRow(ctx, "SELECT min(idx), count() FROM ("+chunk+")", dead.args...).Scan(&low,
			&n); err != nil {
			return nil, "", db.explain("listing dead letters", err)
		}
		if n == 0 {
			return page, "", nil
		}
		found, err := db.deadLettersOf(ctx, f, chunk, dead.args, low, before, limit-len(page))
		if err != nil {
			return nil, "", err
		}
		page = append(page, found...)
		if len(page) == limit {
			return page, strconv.FormatUint(page[limit-1].Idx, 10), nil
		}
		if n < deliveryChunk {
			return page, "", nil
		}
		before = low
	}
	return page, strconv.FormatUint(before, 10), nil
}

func (db *DB) deadLettersOf(ctx context.Context, f DeadLetterFilter, chunk string, chunkArgs []any, low, before uint64,
	limit int) ([]DeadLetter, error) {
	from, err := viewSelect("dead_letters", "event_id IN (SELECT event_id FROM ("+chunk+"))")
	if err != nil {
		return nil, err
	}
	var c conditions
	c.add("idx >= ? AND idx < ?", low, before)
	c.equal("tenant", f.Tenant)
	c.equal("endpoint_id", f.EndpointID)
	c.equal("event_id", f.EventID)
	c.equal("reason", f.Reason)
	c.equal("resolution", f.Resolution)
	c.between("dead_lettered_at", f.From, f.To)
	query := fmt.Sprintf("SELECT * FROM (%s) WHERE %s ORDER BY idx DESC LIMIT %d", from, c.String(), limit)
	var out []DeadLetter
	args := append(append([]any{}, chunkArgs...), c.args...)
	return out, db.selectInto(ctx, "listing dead letters", &out, query, args...)
}
