package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Delivery is a row of the view deliveries.
type Delivery struct {
	Tenant          string     `ch:"tenant" json:"tenant"`
	EventID         string     `ch:"event_id" json:"event_id"`
	EndpointID      string     `ch:"endpoint_id" json:"endpoint_id"`
	EventType       string     `ch:"event_type" json:"event_type"`
	State           string     `ch:"state" json:"state"`
	AttemptCount    uint64     `ch:"attempt_count" json:"attempt_count"`
	AttemptsMissing int64      `ch:"attempts_missing" json:"attempts_missing"`
	OwedAt          *time.Time `ch:"owed_at" json:"owed_at,omitempty"`
	DeliverBy       *time.Time `ch:"deliver_by" json:"deliver_by,omitempty"`
	SucceededAt     *time.Time `ch:"succeeded_at" json:"succeeded_at,omitempty"`
	DeadLetteredAt  *time.Time `ch:"dead_lettered_at" json:"dead_lettered_at,omitempty"`
	CancelledAt     *time.Time `ch:"cancelled_at" json:"cancelled_at,omitempty"`
	Reason          string     `ch:"reason" json:"reason,omitempty"`
	PayloadDigest   string     `ch:"payload_digest" json:"payload_digest,omitempty"`
	URL             string     `ch:"url" json:"url,omitempty"`
	LastStatus      int64      `ch:"last_status" json:"last_status,omitempty"`
	LastOutcome     string     `ch:"last_outcome" json:"last_outcome,omitempty"`
	LastAttemptAt   *time.Time `ch:"last_attempt_at" json:"last_attempt_at,omitempty"`
	NextAttemptAt   *time.Time `ch:"next_attempt_at" json:"next_attempt_at,omitempty"`
	ReplayCount     uint64     `ch:"replay_count" json:"replay_count"`
	// of what came to be owed last; empty: the first obligation
	ReplayID string  `ch:"replay_id" json:"replay_id,omitempty"`
	OwedIdx  *uint64 `ch:"owed_idx" json:"owed_idx,omitempty"`
}

// DeliveryFilter narrows Deliveries; an empty field does not.
type DeliveryFilter struct {
	Tenant, EndpointID, EventID string
	State, EventType, Reason    string
	// From and To bound when the delivery came to be owed: From <= owed_at < To.
	From, To time.Time
}

const (
	// deliveryChunk is how many owed deliveries one step of a listing looks at.
	deliveryChunk = 2000
	// deliverySteps bounds a listing's work: a filter that matches little ends
	// with a short page and a cursor, not with a scan of the ledger.
	deliverySteps = 25
)

// Delivery returns one delivery, or ErrNotFound. An empty tenant matches any.
func (db *DB) Delivery(ctx context.Context, tenant, eventID, endpointID string) (Delivery, error) {
	var c conditions
	c.equal("tenant", tenant)
	c.add("event_id = ? AND endpoint_id = ?", eventID, endpointID)
	var out []Delivery
	if err := db.selectInto(ctx, "reading a delivery", &out, "SELECT * FROM deliveries WHERE "+c.String()+" LIMIT 1",
		c.args...); err != nil {
		return Delivery{}, err
	}
	if len(out) == 0 {
		return Delivery{}, fmt.Errorf("delivery of event %s to endpoint %s: %w", eventID, endpointID, ErrNotFound)
	}
	return out[0], nil
}

// Deliveries lists deliveries, the last owed first, from cursor on ("" for the
// start). next is the cursor of the following page, "" at the end. A page can
// be shorter than limit, or empty, though next is set: then the filter matched
// little of what was looked at.
func (db *DB) Deliveries(ctx context.Context, f DeliveryFilter, cursor string, limit int) (page []Delivery, next string,
	err error) {
	limit = bounded(limit)
	before, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for range deliverySteps {
		low, n, err := db.owedChunk(ctx, f, before)
		if err != nil || n == 0 {
			return page, "", err
		}
		found, err := db.deliveriesOwedBetween(ctx, f, low, before, limit-len(page))
		if err != nil {
			return nil, "", err
		}
		page = append(page, found...)
		if len(page) == limit {
			return page, strconv.FormatUint(*page[limit-1].OwedIdx, 10), nil
		}
		if n < deliveryChunk {
			return page, "", nil
		}
		before = low
	}
	return page, strconv.FormatUint(before, 10), nil
}

// owedConditions are those that can be asked of delivery.owed itself.
func (f DeliveryFilter) owedConditions() conditions {
	var c conditions
	c.add("kind = 'delivery.owed' AND replay_id = ''")
	c.equal("tenant", f.Tenant)
	c.equal("endpoint_id", f.EndpointID)
	c.equal("event_id", f.EventID)
	c.equal("event_type", f.EventType)
	c.between("at", f.From, f.To)
	return c
}

// owedChunk looks at the last owed deliveries below index before: the lowest
// index among them, and how many there are.
func (db *DB) owedChunk(ctx context.Context, f DeliveryFilter, before uint64) (low, n uint64, err error) {
	c := f.owedConditions()
	c.add("idx < ?", before)
	query := fmt.Sprintf("SELECT min(idx), count() FROM (SELECT idx FROM records WHERE %s ORDER BY idx DESC LIMIT %d)",
		c.String(), deliveryChunk)
	err = db.conn.QueryRow(ctx, query, c.args...).Scan(&low, &n)
	return low, n, db.explain("listing deliveries", err)
}

func (db *DB) deliveriesOwedBetween(ctx context.Context, f DeliveryFilter, low, before uint64, limit int) ([]Delivery,
	error) {
	owed := f.owedConditions()
	owed.add("idx >= ? AND idx < ?", low, before)
	// Everything about a delivery is recorded behind its being owed.
	scope := "idx >= ? AND (tenant, event_id, endpoint_id) IN (SELECT tenant, event_id, endpoint_id FROM records WHERE " +
		owed.String() + ")"
	args := append([]any{low}, owed.args...)
	from, err := viewSelect("deliveries", scope)
	if err != nil {
		return nil, err
	}
	var c conditions
	c.add("owed_idx IS NOT NULL AND owed_idx < ?", before)
	c.equal("state", f.State)
	c.equal("reason", f.Reason)
	query := fmt.Sprintf("SELECT * FROM (%s) WHERE %s ORDER BY owed_idx DESC LIMIT %d", from, c.String(), limit)
	var out []Delivery
	return out, db.selectInto(ctx, "listing deliveries", &out, query, append(args, c.args...)...)
}

func parseCursor(cursor string) (uint64, error) {
	if cursor == "" {
		return 1<<63 - 1, nil
	}
	before, err := strconv.ParseUint(cursor, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %q; want the value of an earlier page's next", ErrBadCursor,
			strings.ToValidUTF8(cursor, "?"))
	}
	return before, nil
}
