package control

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// Ledger answers questions about the past. What it knows lags behind what
// happened by about a second.
type Ledger interface {
	// Event returns what is on record of an event; of one published more than
	// once, what was sent. ok is false when nothing is. Without a tenant it is an
	// *Error when several have an event of this id.
	Event(ctx context.Context, tenant, id string) (e EventRecord, ok bool, err error)
	// Deliveries returns at most limit deliveries, those owed last first,
	// beginning after the cursor that the page before gave.
	Deliveries(ctx context.Context, f DeliveryFilter, cursor string, limit int) (DeliveryPage, error)
	// Attempts returns a delivery's records of kind attempt, in order.
	Attempts(ctx context.Context, eventID, endpointID string) ([]record.Record, error)
	// DeadLetters returns at most limit dead letters, the latest first. Their
	// clocks are filled by Control.
	DeadLetters(ctx context.Context, f DeadLetterFilter, cursor string, limit int) (DeadLetterPage, error)
	// EndpointChanges returns an endpoint's revisions, oldest first.
	EndpointChanges(ctx context.Context, endpointID string) ([]EndpointChange, error)
	// Pending counts the deliveries that wait for an endpoint.
	Pending(ctx context.Context, endpointID string) (Pending, error)
	// EventsNotOwedTo returns at most limit of a tenant's events, oldest first and
	// behind index after, that were expanded at from or later and before to (zero:
	// without end) and were never owed to the endpoint.
	EventsNotOwedTo(ctx context.Context, tenant, endpointID string, from, to time.Time, after uint64,
		limit int) ([]UnowedEvent, error)
	EvidenceSource
}

// ErrBadCursor is what a Ledger's Deliveries MUST return, wrapped or not, for a
// cursor that it did not give.
var ErrBadCursor = errors.New("the cursor is not one that a page gave; leave it out to begin at the start")

// Event states.
const (
	EventAccepted  = "accepted"
	EventUnmatched = "unmatched" // owed to nobody
	EventRejected  = "rejected"  // could not be read as an event
)

// EventRecord is what is on record of an event: never its data.
type EventRecord struct {
	ID          string    `json:"id"`
	Tenant      string    `json:"tenant"`
	Type        string    `json:"type,omitempty"`
	State       string    `json:"state"`
	Timestamp   time.Time `json:"timestamp,omitzero"` // the producer's
	StoredAt    time.Time `json:"stored_at,omitzero"` // in EVENTS
	Seq         uint64    `json:"seq,omitempty"`      // in EVENTS
	SubjectType string    `json:"subject_type,omitempty"`
	SubjectID   string    `json:"subject_id,omitempty"`
	DeliverBy   time.Time `json:"deliver_by,omitzero"`
	DataDigest  string    `json:"data_digest,omitempty"`
	DataBytes   int       `json:"data_bytes,omitempty"`
	Endpoints   int       `json:"endpoints"` // that it was owed to
	Reason      string    `json:"reason,omitempty"`
	Detail      string    `json:"detail,omitempty"`
	// Contents are there when more than one event came in under this id.
	Contents []EventContent `json:"contents,omitempty"`
}

// EventContent is one of several events that came in under one id.
type EventContent struct {
	State      string    `json:"state"`
	Type       string    `json:"type"`
	DataDigest string    `json:"data_digest"`
	Seq        uint64    `json:"seq"` // in EVENTS, of the first time
	StoredAt   time.Time `json:"stored_at"`
	Times      int       `json:"times"`      // that it came in
	Deliveries int       `json:"deliveries"` // that came to be owed of it
	Reason     string    `json:"reason,omitempty"`
}

// Contradicts says whether different events stand under one id: receivers may know either.
func (e EventRecord) Contradicts() bool {
	standing := map[[2]string]bool{}
	for _, c := range e.Contents {
		if c.State != EventRejected {
			standing[[2]string{c.Type, c.DataDigest}] = true
		}
	}
	return len(standing) > 1
}

// Delivery is one event owed to one endpoint, and what became of it.
type Delivery struct {
	EventID    string `json:"event_id"`
	EndpointID string `json:"endpoint_id"`
	Tenant     string `json:"tenant"`
	EventType  string `json:"event_type"`
	State      string `json:"state"`
	Attempts   int    `json:"attempt_count"` // across replays
	// ReplayID is the replay that State speaks of. Empty: the first obligation.
	ReplayID       string    `json:"replay_id,omitempty"`
	OwedAt         time.Time `json:"owed_at,omitzero"`
	DeliverBy      time.Time `json:"deliver_by,omitzero"`
	NextAttemptAt  time.Time `json:"next_attempt_at,omitzero"`
	SucceededAt    time.Time `json:"succeeded_at,omitzero"`
	DeadLetteredAt time.Time `json:"dead_lettered_at,omitzero"`
	CancelledAt    time.Time `json:"cancelled_at,omitzero"`
	Reason         string    `json:"reason,omitempty"`
	PayloadDigest  string    `json:"payload_digest,omitempty"` // of the last signed bytes
}

// DeliveryFilter narrows a listing. Zero fields do not.
type DeliveryFilter struct {
	Tenant     string
	EventID    string
	EndpointID string
	EventType  string
	State      string
	Reason     string    // of what ended unfulfilled
	Since      time.Time // owed at this time or later
	Until      time.Time // owed before
}

// DeliveryPage is one page of a listing.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next,omitempty"` // cursor of the next page; empty: this is the last
}
