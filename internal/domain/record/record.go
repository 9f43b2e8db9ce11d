// Package record is the shape of one fact in the ledger. The JSON that Encode
// gives is what is published to LEDGER, stored in ClickHouse and hashed: its
// bytes are the record.
package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/streams"
)

// Version of the record's format. A reader keeps understanding every older one.
const Version = 1

// Kind of a record.
type Kind string

// The kinds. Their names are the ledger's and never change.
const (
	EventAccepted      Kind = "event.accepted"
	EventRejected      Kind = "event.rejected"
	EventUnmatched     Kind = "event.unmatched"
	EventDuplicate     Kind = "event.duplicate"
	EventEndpoints     Kind = "event.endpoints"
	DeliveryOwed       Kind = "delivery.owed"
	Attempt            Kind = "attempt"
	DeliveryDeadLetter Kind = "delivery.dead_lettered"
	DeliveryCancelled  Kind = "delivery.cancelled"
	Escalation         Kind = "escalation"
	EscalationAcked    Kind = "escalation.acknowledged"
	ReplayRequested    Kind = "replay.requested"
	EndpointChanged    Kind = "endpoint.changed"
	EventTypeChanged   Kind = "event_type.changed"
	ConformanceChecked Kind = "conformance.checked"
	OperatorAction     Kind = "operator.action"
	LedgerGap          Kind = "ledger.gap"
)

// Kinds in the order of an event's life.
func Kinds() []Kind {
	return []Kind{EventAccepted, EventRejected, EventUnmatched, EventDuplicate, EventEndpoints, DeliveryOwed, Attempt,
		DeliveryDeadLetter,
		DeliveryCancelled, Escalation, EscalationAcked, ReplayRequested, EndpointChanged, EventTypeChanged,
		ConformanceChecked, OperatorAction, LedgerGap}
}

// Record is one immutable fact. Which fields are set depends on Kind; a zero
// field is absent from the JSON. Times are UTC. Durations are whole
// microseconds. Digests are lower-case hex of SHA-256.
type Record struct {
	Version int       `json:"v"`
	ID      string    `json:"id"` // unique in the ledger; also the Nats-Msg-Id into LEDGER
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Tenant  string    `json:"tenant"`

	EventID    string `json:"event_id,omitempty"`
	EndpointID string `json:"endpoint_id,omitempty"`

	// The event, on event.* and delivery.owed.
	EventType   string    `json:"event_type,omitempty"`
	EventAt     time.Time `json:"event_at,omitzero"`   // the producer's timestamp
	EventSeq    uint64    `json:"event_seq,omitempty"` // position in EVENTS
	StoredAt    time.Time `json:"stored_at,omitzero"`  // when EVENTS stored it
	SubjectType string    `json:"subject_type,omitempty"`
	SubjectID   string    `json:"subject_id,omitempty"`
	DeliverBy   time.Time `json:"deliver_by,omitzero"`
	DataDigest  string    `json:"data_digest,omitempty"` // of the bytes of data
	DataBytes   int       `json:"data_bytes,omitempty"`
	NoMsgID     bool      `json:"no_msg_id,omitempty"`    // published without Nats-Msg-Id: not deduplicated
	Endpoints   int       `json:"endpoints,omitempty"`    // how many deliveries the event became
	EndpointIDs []string  `json:"endpoint_ids,omitempty"` // to whom, in order; event.accepted, event.endpoints
	// Of an event for more endpoints than one record lists: the SHA-256 of all
	// their ids, joined by line feeds, and where in LEDGER the records
	// event.endpoints are that list them.
	EndpointsDigest string   `json:"endpoints_digest,omitempty"`
	EndpointsAt     []uint64 `json:"endpoints_at,omitempty"`
	NATSSubject     string   `json:"nats_subject,omitempty"` // where a rejected event was published

	// Why. Reason is a code; Detail is for people.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`

	// The attempt.
	Attempt         int       `json:"attempt,omitempty"` // 1, 2, 3 … within the delivery, across replays
	ReplayID        string    `json:"replay_id,omitempty"`
	StartedAt       time.Time `json:"started_at,omitzero"`
	AuthUS          int64     `json:"auth_us,omitempty"` // getting an access token
	ResolveUS       int64     `json:"resolve_us,omitempty"`
	ConnectUS       int64     `json:"connect_us,omitempty"`
	TLSUS           int64     `json:"tls_us,omitempty"`
	FirstByteUS     int64     `json:"first_byte_us,omitempty"`
	DurationUS      int64     `json:"duration_us,omitempty"` // the call alone, no queueing
	Status          int       `json:"status,omitempty"`
	Outcome         string    `json:"outcome,omitempty"`
	Class           string    `json:"class,omitempty"`
	Decision        string    `json:"decision,omitempty"` // delivered, retry, dead_letter
	NextAttemptAt   time.Time `json:"next_attempt_at,omitzero"`
	Error           string    `json:"error,omitempty"` // what went wrong with the call, for people
	URL             string    `json:"url,omitempty"`   // as SafeURL says
	RemoteAddr      string    `json:"remote_addr,omitempty"`
	Reused          bool      `json:"connection_reused,omitempty"`
	HTTPVersion     string    `json:"http_version,omitempty"`
	TLSVersion      string    `json:"tls_version,omitempty"`
	PeerFingerprint string    `json:"peer_fingerprint,omitempty"`
	// of the client certificate, the endpoint's present one
	ClientFingerprint string `json:"client_fingerprint,omitempty"`
	// that the connection went through; remote_addr is its
	Proxy             string            `json:"proxy,omitempty"`
	PayloadDigest     string            `json:"payload_digest,omitempty"` // of the exact signed bytes
	PayloadBytes      int               `json:"payload_bytes,omitempty"`
	SignatureScheme   string            `json:"signature_scheme,omitempty"`
	KeyIDs            []string          `json:"key_ids,omitempty"`
	SignedAt          time.Time         `json:"signed_at,omitzero"` // the timestamp that was signed, whole seconds
	ResponseHeaders   map[string]string `json:"response_headers,omitempty"`
	ResponseExcerpt   string            `json:"response_excerpt,omitempty"` // up to 1 KiB, redacted
	ResponseBytes     int64             `json:"response_bytes,omitempty"`   // read by us
	ResponseTruncated bool              `json:"response_truncated,omitempty"`
	Redactions        int               `json:"redactions,omitempty"` // pieces removed from headers, excerpt and error
	Redacted          map[string]int    `json:"redacted,omitempty"`   // the same by kind; absent from older records
	Dispatcher        string            `json:"dispatcher,omitempty"`
	Software          string            `json:"software,omitempty"`

	// The dead letter and the cancellation.
	Attempts int `json:"attempts,omitempty"` // attempts made when it ended

	// What people and the watchdog did: replay.requested, endpoint.changed, event_type.changed, operator.action.
	Actor            string   `json:"actor,omitempty"`
	Action           string   `json:"action,omitempty"`
	EndpointRevision uint64   `json:"endpoint_revision,omitempty"`
	EventTypes       []string `json:"event_types,omitempty"`
	// Settings of the endpoint's revision, without what is secret of them.
	Settings map[string]string `json:"settings,omitempty"`

	// The escalation, its acknowledgement, and changes of channels and policies
	// (operator.action). Attempt numbers the tries of a message on a channel.
	IncidentID       string `json:"incident_id,omitempty"`
	MessageID        string `json:"message_id,omitempty"` // what the channel's receiver may deduplicate on
	EscalationPolicy string `json:"escalation_policy,omitempty"`
	Step             int    `json:"step,omitempty"` // 1, 2, 3 … of the policy
	Channel          string `json:"channel,omitempty"`
	ChannelKind      string `json:"channel_kind,omitempty"`
	Revision         uint64 `json:"revision,omitempty"` // of the channel or policy

	// A gap in LEDGER: the sequences that are missing.
	GapFrom uint64 `json:"gap_from,omitempty"`
	GapTo   uint64 `json:"gap_to,omitempty"`
}

// Encode gives the record's bytes.
func (r *Record) Encode() ([]byte, error) {
	r.Version = Version
	r.At = r.At.UTC()
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	return b, nil
}

// Message is the record on its way to LEDGER.
func (r *Record) Message() (*nats.Msg, error) {
	b, err := r.Encode()
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: streams.LedgerSubject(string(r.Kind), r.Tenant), Header: nats.Header{nats.MsgIdHdr: {r.ID}},
		Data: b}, nil
}

// Decode reads a record of this version or an older one.
func Decode(b []byte) (Record, error) {
	r, ok := decodePlain(b)
	if !ok {
		r = Record{}
		if err := json.Unmarshal(b, &r); err != nil {
			return r, fmt.Errorf("ledger record: %w", err)
		}
	}
	if r.Version < 1 || r.Version > Version {
		return r, fmt.Errorf("ledger record %q has format %d; this version reads 1 to %d", r.ID, r.Version, Version)
	}
	if r.ID == "" || r.Kind == "" || r.At.IsZero() || r.Tenant == "" {
		return r, fmt.Errorf("ledger record %q lacks id, kind, at or tenant", r.ID)
	}
	return r, nil
}

// The ids of records that are not an attempt's follow from what they state, so
// that a stage that dies and states it again is recognised: LEDGER drops the
// second one. An attempt's id is att_ + ULID, kept in its claim.

// EventRecordID identifies event.accepted, event.rejected, event.unmatched and
// event.duplicate alike, so that an event is on record as one of them only: by its position in
// EVENTS and the time it was stored there, so that an event published again
// after the dedupe window, or into a stream made anew, is a fact of its own.
func EventRecordID(eventSeq uint64, storedAt time.Time) string {
	return fmt.Sprintf("event/%d-%d", eventSeq, storedAt.UnixNano())
}

// EventEndpointsID identifies event.endpoints: part n, from 0, of the list of one
// expansion of an event, given its EventRecordID and when that was made.
func EventEndpointsID(event string, at time.Time, n int) string {
	return fmt.Sprintf("%s/%s/%d/%d", EventEndpoints, event, at.UnixNano(), n)
}

// OwedID identifies delivery.owed; replay is empty for the first obligation. It
// also identifies the delivery.cancelled of a replay that is not carried out:
// only one of them can be on record.
func OwedID(event, endpoint, replay string) string {
	return deliveryRecordID(DeliveryOwed, event, endpoint, replay)
}

// EndID identifies what ended a delivery, or one of its replays, without success.
func EndID(kind Kind, event, endpoint, replay string) string {
	return deliveryRecordID(kind, event, endpoint, replay)
}

func deliveryRecordID(kind Kind, event, endpoint, replay string) string {
	id := string(kind) + "/" + event + "/" + endpoint
	if replay != "" {
		id += "/r" + replay
	}
	return id
}

// EscalationID identifies one try to tell of one record by one message on one channel.
func EscalationID(message, channel string, try int, about string) string {
	return fmt.Sprintf("%s/%s/%s/%d/%s", Escalation, message, channel, try, about)
}

// EscalationAbout is the id of the record that an escalation is about; empty
// when id is none that EscalationID gave.
func EscalationAbout(id string) string {
	parts := strings.SplitN(id, "/", 5)
	if len(parts) < 5 || parts[0] != string(Escalation) {
		return ""
	}
	return parts[4]
}

// AlarmID identifies operator.action for one change of an alarm: the n-th word
// since it was raised.
func AlarmID(code, subject string, raised time.Time, n int) string {
	return fmt.Sprintf("%s/alarm/%s/%s/%d/%d", OperatorAction, code, subject, raised.UnixNano(), n)
}

// WatchdogID identifies what the watchdog did once about one dead letter, or a
// delivery that should be one.
func WatchdogID(kind Kind, action, about string) string {
	return fmt.Sprintf("%s/watchdog/%s/%s", kind, action, about)
}

// AckedID identifies escalation.acknowledged: an incident is acknowledged once.
func AckedID(incident string) string { return string(EscalationAcked) + "/" + incident }

// RevisionID identifies operator.action for one revision of a channel or policy.
func RevisionID(bucket, key string, revision uint64) string {
	return fmt.Sprintf("%s%d", RevisionPrefix(bucket, key), revision)
}

// RevisionPrefix begins the RevisionID of every revision of one channel or policy.
func RevisionPrefix(bucket, key string) string {
	return fmt.Sprintf("%s/%s/%s/", OperatorAction, bucket, key)
}

// GapID identifies ledger.gap within one making of LEDGER (epoch: its creation
// time in nanoseconds).
func GapID(epoch int64, from, to uint64) string {
	return fmt.Sprintf("%s/%d/%d-%d", LedgerGap, epoch, from, to)
}
