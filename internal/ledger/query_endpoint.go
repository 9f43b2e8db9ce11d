package ledger

import (
	"context"
	"fmt"
	"time"
)

// EndpointChange is a row of the view endpoint_history: what an endpoint was
// from At on.
type EndpointChange struct {
	At     time.Time `ch:"at"`
	Action string    `ch:"action"`
	Types  []string  `ch:"event_types"`
}

// EndpointChanges returns an endpoint's revisions, oldest first.
func (db *DB) EndpointChanges(ctx context.Context, endpointID string) ([]EndpointChange, error) {
	var out []EndpointChange
	return out, db.selectInto(ctx, "reading an endpoint's history", &out,
		"SELECT at, action, event_types FROM endpoint_history WHERE endpoint_id = ? ORDER BY endpoint_revision", endpointID)
}

// PendingCount is how many deliveries wait for an endpoint.
type PendingCount struct {
	Deliveries uint64 `ch:"deliveries"`
	Attempted  uint64 `ch:"attempted"` // those that had an attempt
}

// Pending counts the deliveries that wait for an endpoint, as far as the ledger knows.
func (db *DB) Pending(ctx context.Context, endpointID string) (PendingCount, error) {
	var out []PendingCount
	err := db.selectInto(ctx, "counting an endpoint's deliveries", &out,
		"SELECT count() AS deliveries, countIf(attempt_count > 0) AS attempted FROM deliveries WHERE endpoint_id = ? AND "+
			"state = 'pending'", endpointID)
	if err != nil || len(out) == 0 {
		return PendingCount{}, err
	}
	return out[0], nil
}

// UnowedEvent is an event that was expanded and is not owed to an endpoint.
type UnowedEvent struct {
	Idx       uint64     `ch:"idx"`
	EventID   string     `ch:"event_id"`
	EventType string     `ch:"event_type"`
	Kind      string     `ch:"kind"`
	At        time.Time  `ch:"at"` // when it was expanded
	StoredAt  *time.Time `ch:"stored_at"`
}

// EventsNotOwedTo lists a tenant's events that were expanded at from or later
// and before to, and were never owed to the endpoint: at most limit, oldest
// first, behind index after.
func (db *DB) EventsNotOwedTo(ctx context.Context, tenant, endpointID string, from, to time.Time, after uint64,
	limit int) ([]UnowedEvent, error) {
	var c, owed conditions
	c.add("kind IN ('event.accepted', 'event.unmatched') AND tenant = ? AND idx > ?", tenant, after)
	c.between("at", from, to)
	owed.add("kind = 'delivery.owed' AND tenant = ? AND endpoint_id = ?", tenant, endpointID)
	owed.between("at", from, time.Time{}) // a replay owes it later
	query := fmt.Sprintf(`SELECT idx, event_id, event_type, kind, at, stored_at FROM records
WHERE %s AND event_id NOT IN (SELECT event_id FROM records WHERE %s) ORDER BY idx LIMIT %d`, c.String(), owed.String(),
		limit)
	var out []UnowedEvent
	return out, db.selectInto(ctx, "listing what an endpoint missed", &out, query, append(c.args, owed.args...)...)
}
