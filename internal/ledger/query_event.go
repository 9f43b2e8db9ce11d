package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// Event is a row of the view events.
type Event struct {
	Idx         uint64     `ch:"idx" json:"idx"`
	ID          string     `ch:"id" json:"id"`
	At          time.Time  `ch:"at" json:"at"`
	Tenant      string     `ch:"tenant" json:"tenant"`
	EventID     string     `ch:"event_id" json:"event_id"`
	State       string     `ch:"state" json:"state"` // accepted, unmatched, rejected
	EventType   string     `ch:"event_type" json:"event_type"`
	EventAt     *time.Time `ch:"event_at" json:"event_at,omitempty"`
	EventSeq    uint64     `ch:"event_seq" json:"event_seq"` // position in EVENTS
	StoredAt    *time.Time `ch:"stored_at" json:"stored_at,omitempty"`
	SubjectType string     `ch:"subject_type" json:"subject_type,omitempty"`
	SubjectID   string     `ch:"subject_id" json:"subject_id,omitempty"`
	DeliverBy   *time.Time `ch:"deliver_by" json:"deliver_by,omitempty"`
	Endpoints   int64      `ch:"endpoints" json:"endpoints"`
	DataDigest  string     `ch:"data_digest" json:"data_digest,omitempty"`
	DataBytes   int64      `ch:"data_bytes" json:"data_bytes"`
	NoMsgID     bool       `ch:"no_msg_id" json:"no_msg_id,omitempty"`
	NATSSubject string     `ch:"nats_subject" json:"nats_subject,omitempty"`
	Reason      string     `ch:"reason" json:"reason,omitempty"`
	Detail      string     `ch:"detail" json:"detail,omitempty"`
}

// Event returns what became of an event when it came in, or ErrNotFound. If it came
// in more than once, the record counts of which deliveries came to be owed; then
// any but a rejection; then the last. An empty tenant matches any.
func (db *DB) Event(ctx context.Context, tenant, eventID string) (Event, error) {
	var c conditions
	c.equal("tenant", tenant)
	c.add("event_id = ?", eventID)
	var out []Event
	err := db.selectInto(ctx, "reading an event", &out, "SELECT * FROM events WHERE "+c.String()+
		" ORDER BY state = 'rejected', event_seq NOT IN (SELECT event_seq FROM records WHERE kind = 'delivery.owed' AND "+
		"event_id = ?), idx DESC LIMIT 1", append(c.args, eventID)...)
	if err != nil {
		return Event{}, err
	}
	if len(out) == 0 {
		return Event{}, fmt.Errorf("event %s: %w", eventID, ErrNotFound)
	}
	return out[0], nil
}

// Content is what came in under an id: an event, or another one.
type Content struct {
	State      string    `ch:"state"` // accepted, unmatched, rejected
	EventType  string    `ch:"event_type"`
	DataDigest string    `ch:"data_digest"`
	EventSeq   uint64    `ch:"event_seq"` // of the first time, if it came in more than once
	StoredAt   time.Time `ch:"first_at"`
	Times      uint64    `ch:"times"`
	Owed       uint64    `ch:"owed"` // deliveries of it
	Reason     string    `ch:"why"`
}

// Contents lists what came in under an id of a tenant, the first first. What has no
// digest, since it could not be read, is left out.
func (db *DB) Contents(ctx context.Context, tenant, eventID string) (out []Content, err error) {
	const query = `SELECT state, event_type, data_digest, min(event_seq) AS event_seq, min(at) AS first_at, count() AS times, toUInt64(sum(owed)) AS owed, max(toString(reason)) AS why
		FROM (SELECT state, toString(event_type) AS event_type, data_digest, e.event_seq AS event_seq, at, reason, o.owed AS owed FROM events AS e LEFT JOIN (
			SELECT event_seq, uniqExact(endpoint_id) AS owed FROM records WHERE kind = 'delivery.owed' AND event_id = ? AND tenant = ? AND replay_id = '' GROUP BY event_seq) AS o USING event_seq
		WHERE event_id = ? AND tenant = ? AND data_digest != '')
		GROUP BY state, event_type, data_digest ORDER BY event_seq LIMIT 100`
	return out, db.selectInto(ctx, "reading what came in under an id", &out, query, eventID, tenant, eventID, tenant)
}

// EventTenants lists the tenants that have an event of this id on record.
func (db *DB) EventTenants(ctx context.Context, eventID string) ([]string, error) {
	return db.strings(ctx, "looking for an event", "SELECT DISTINCT toString(tenant) AS tenant FROM events WHERE "+
		"event_id = ? ORDER BY tenant LIMIT 10", eventID)
}

// AttemptRecords returns a delivery's records of kind attempt as they were
// written, in order, at most MaxLimit.
func (db *DB) AttemptRecords(ctx context.Context, eventID, endpointID string) ([]record.Record, error) {
	bodies, err := db.strings(ctx, "reading attempts", fmt.Sprintf(
		"SELECT body FROM records WHERE kind = 'attempt' AND event_id = ? AND endpoint_id = ? ORDER BY attempt, idx LIMIT %d",
		MaxLimit), eventID, endpointID)
	if err != nil {
		return nil, err
	}
	out := make([]record.Record, len(bodies))
	for i, b := range bodies {
		if out[i], err = record.Decode([]byte(b)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
