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

// AttemptRow is a row of the view attempts.
type AttemptRow struct {
	Idx               uint64            `ch:"idx" json:"idx"`
	ID                string            `ch:"id" json:"id"`
	At                time.Time         `ch:"at" json:"at"`
	Tenant            string            `ch:"tenant" json:"tenant"`
	EventID           string            `ch:"event_id" json:"event_id"`
	EndpointID        string            `ch:"endpoint_id" json:"endpoint_id"`
	EventType         string            `ch:"event_type" json:"event_type,omitempty"`
	Attempt           int64             `ch:"attempt" json:"attempt"`
	ReplayID          string            `ch:"replay_id" json:"replay_id,omitempty"`
	StartedAt         *time.Time        `ch:"started_at" json:"started_at,omitempty"`
	AuthUS            int64             `ch:"auth_us" json:"auth_us,omitempty"`
	ResolveUS         int64             `ch:"resolve_us" json:"resolve_us"`
	ConnectUS         int64             `ch:"connect_us" json:"connect_us"`
	TLSUS             int64             `ch:"tls_us" json:"tls_us"`
	FirstByteUS       int64             `ch:"first_byte_us" json:"first_byte_us"`
	DurationUS        int64             `ch:"duration_us" json:"duration_us"`
	Status            int64             `ch:"status" json:"status"`
	Outcome           string            `ch:"outcome" json:"outcome"`
	Class             string            `ch:"class" json:"class"`
	Error             string            `ch:"error" json:"error,omitempty"`
	Decision          string            `ch:"decision" json:"decision"`
	Reason            string            `ch:"reason" json:"reason,omitempty"`
	Detail            string            `ch:"detail" json:"detail,omitempty"`
	NextAttemptAt     *time.Time        `ch:"next_attempt_at" json:"next_attempt_at,omitempty"`
	DeliverBy         *time.Time        `ch:"deliver_by" json:"deliver_by,omitempty"`
	EndpointRevision  uint64            `ch:"endpoint_revision" json:"endpoint_revision"`
	URL               string            `ch:"url" json:"url"`
	Proxy             string            `ch:"proxy" json:"proxy,omitempty"`
	RemoteAddr        string            `ch:"remote_addr" json:"remote_addr,omitempty"`
	ConnectionReused  bool              `ch:"connection_reused" json:"connection_reused,omitempty"`
	HTTPVersion       string            `ch:"http_version" json:"http_version,omitempty"`
	TLSVersion        string            `ch:"tls_version" json:"tls_version,omitempty"`
	PeerFingerprint   string            `ch:"peer_fingerprint" json:"peer_fingerprint,omitempty"`
	ClientFingerprint string            `ch:"client_fingerprint" json:"client_fingerprint,omitempty"`
	PayloadDigest     string            `ch:"payload_digest" json:"payload_digest"`
	PayloadBytes      int64             `ch:"payload_bytes" json:"payload_bytes"`
	SignatureScheme   string            `ch:"signature_scheme" json:"signature_scheme,omitempty"`
	KeyIDs            []string          `ch:"key_ids" json:"key_ids,omitempty"`
	SignedAt          *time.Time        `ch:"signed_at" json:"signed_at,omitempty"`
	ResponseHeaders   map[string]string `ch:"response_headers" json:"response_headers,omitempty"`
	ResponseExcerpt   string            `ch:"response_excerpt" json:"response_excerpt,omitempty"`
	ResponseBytes     int64             `ch:"response_bytes" json:"response_bytes"`
	ResponseTruncated bool              `ch:"response_truncated" json:"response_truncated,omitempty"`
	Redactions        int64             `ch:"redactions" json:"redactions,omitempty"`
	Redacted          map[string]int64  `ch:"redacted" json:"redacted,omitempty"`
	Dispatcher        string            `ch:"dispatcher" json:"dispatcher,omitempty"`
	Software          string            `ch:"software" json:"software,omitempty"`
}

// Attempts returns an event's attempts, by endpoint and number, at most
// MaxLimit. An empty tenant or endpoint matches any.
func (db *DB) Attempts(ctx context.Context, tenant, eventID, endpointID string) ([]AttemptRow, error) {
	var c conditions
	c.equal("tenant", tenant)
	c.add("event_id = ?", eventID)
	c.equal("endpoint_id", endpointID)
	var out []AttemptRow
	return out, db.selectInto(ctx, "reading attempts", &out,
		fmt.Sprintf("SELECT * FROM attempts WHERE %s ORDER BY endpoint_id, attempt, idx LIMIT %d", c.String(), MaxLimit), c.args...)
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
