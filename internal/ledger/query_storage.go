package ledger

import (
	"context"
	"time"
)

// Stats counts records of a period. Durations are microseconds.
type Stats struct {
	Records           uint64  `ch:"records" json:"records"`
	EventsAccepted    uint64  `ch:"events_accepted" json:"events_accepted"`
	EventsUnmatched   uint64  `ch:"events_unmatched" json:"events_unmatched"`
	EventsRejected    uint64  `ch:"events_rejected" json:"events_rejected"`
	Owed              uint64  `ch:"owed" json:"owed"`
	Attempts          uint64  `ch:"attempts" json:"attempts"`
	AttemptsDelivered uint64  `ch:"attempts_delivered" json:"attempts_delivered"`
	AttemptsUnknown   uint64  `ch:"attempts_unknown" json:"attempts_unknown"`
	DeadLettered      uint64  `ch:"dead_lettered" json:"dead_lettered"`
	Cancelled         uint64  `ch:"cancelled" json:"cancelled"`
	Escalations       uint64  `ch:"escalations" json:"escalations"`
	Replays           uint64  `ch:"replays" json:"replays"`
	DurationP50US     float64 `ch:"duration_p50_us" json:"duration_p50_us"`
	DurationP99US     float64 `ch:"duration_p99_us" json:"duration_p99_us"`
}

// Stats counts the records of [from, to); zero times do not bound, an empty
// tenant or endpoint matches any.
func (db *DB) Stats(ctx context.Context, tenant, endpointID string, from, to time.Time) (Stats, error) {
	var c conditions
	c.equal("tenant", tenant)
	c.equal("endpoint_id", endpointID)
	c.between("at", from, to)
	var out []Stats
	err := db.selectInto(ctx, "counting", &out, `SELECT
		count() AS records,
		countIf(kind = 'event.accepted') AS events_accepted,
		countIf(kind = 'event.unmatched') AS events_unmatched,
		countIf(kind = 'event.rejected') AS events_rejected,
		countIf(kind = 'delivery.owed' AND replay_id = '') AS owed,
		countIf(kind = 'attempt') AS attempts,
		countIf(kind = 'attempt' AND class = 'delivered') AS attempts_delivered,
		countIf(kind = 'attempt' AND outcome = 'unknown') AS attempts_unknown,
		countIf(kind = 'delivery.dead_lettered') AS dead_lettered,
		countIf(kind = 'delivery.cancelled') AS cancelled,
		countIf(kind = 'escalation') AS escalations,
		countIf(kind = 'replay.requested') AS replays,
		ifNotFinite(quantileIf(0.5)(duration_us, kind = 'attempt'), 0) AS duration_p50_us,
		ifNotFinite(quantileIf(0.99)(duration_us, kind = 'attempt'), 0) AS duration_p99_us
		FROM records WHERE `+c.String(), c.args...)
	if err != nil {
		return Stats{}, err
	}
	return out[0], nil
}

// Storage is what the table takes.
type Storage struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"` // on disk, compressed, indices included
	Parts   uint64 `json:"parts"`
}

// Storage reads what the table takes on disk.
func (db *DB) Storage(ctx context.Context) (Storage, error) {
	var s Storage
	err := db.conn.QueryRow(ctx, `SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts
		WHERE database = ? AND table = 'records' AND active`, db.Database()).Scan(&s.Records, &s.Bytes, &s.Parts)
	return s, db.explain("reading the table's size", err)
}
