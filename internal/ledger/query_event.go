package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/record"
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

// Event returns what became of an event when it came in, or ErrNotFound: the
// last such record, if it came more than once. An empty tenant matches any.
func (db *DB) Event(ctx context.Context, tenant, eventID string) (Event, error) {
	var c conditions
	c.equal("tenant", tenant)
	c.add("event_id = ?", eventID)
	var out []Event
	err := db.selectInto(ctx, "reading an event", &out, "SELECT * FROM events WHERE "+c.String()+" ORDER BY idx DESC LIMIT 1", c.args...)
	if err != nil {
		return Event{}, err
	}
	if len(out) == 0 {
		return Event{}, fmt.Errorf("event %s: %w", eventID, ErrNotFound)
	}
	return out[0], nil
}

// AttemptRecords returns a delivery's records of kind attempt as they were
// written, in order, at most MaxLimit.
func (db *DB) AttemptRecords(ctx context.Context, eventID, endpointID string) ([]record.Record, error) {
	bodies, err := db.strings(ctx, "reading attempts", fmt.Sprintf(
		"SELECT body FROM records WHERE kind = 'attempt' AND event_id = ? AND endpoint_id = ? ORDER BY attempt, idx LIMIT %d", MaxLimit), eventID, endpointID)
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
