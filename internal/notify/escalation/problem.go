// Package escalation is what is owed to people about a dead letter: the message
// that asks for it, the policy that says who is told when, and the incident
// that says how far that has come. The decisions are pure; package escalator
// carries them out.
package escalation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// tellWithin is the promise where the delivery had none: a dead letter is
// escalated within five minutes.
const tellWithin = 5 * time.Minute

// Trouble is one thing that people must be told of: a dead letter, an event
// that was rejected, or an alarm of the watchdog. It holds nothing that a producer wrote but its ids.
type Problem struct {
	ID string `json:"id"` // of the record that states it; also the message id in ESCALATIONS
	// record.DeliveryDeadLetter, record.EventRejected or, of an alarm, record.OperatorAction
	Kind       record.Kind `json:"kind"`
	Tenant     string      `json:"tenant"`
	EventID    string      `json:"event_id,omitempty"`
	EventType  string      `json:"event_type,omitempty"`
	EndpointID string      `json:"endpoint_id,omitempty"`
	Host       string      `json:"host,omitempty"` // of the endpoint
	ReplayID   string      `json:"replay_id,omitempty"`
	Reason     string      `json:"reason"`
	Why        string      `json:"why,omitempty"`
	Attempts   int         `json:"attempts,omitempty"`
	DeliverBy  time.Time   `json:"deliver_by,omitzero"`
	At         time.Time   `json:"at"`
}

// Of gives the problem that a record states.
func Of(r record.Record) Problem {
	t := Problem{ID: r.ID, Kind: r.Kind, Tenant: r.Tenant, EventID: r.EventID, EventType: r.EventType,
		EndpointID: r.EndpointID,
		ReplayID:   r.ReplayID, Reason: r.Reason, Attempts: r.Attempts, DeliverBy: r.DeliverBy, At: r.At.UTC()}
	if r.Kind != record.EventRejected {
		// Of a rejected event the detail may quote what its producer sent.
		t.Why = r.Detail
	}
	if u, err := url.Parse(r.URL); err == nil {
		t.Host = u.Host
	}
	return t
}

// Message asks for people to be told. It MUST be stored before what led to the
// problem is acknowledged: then a stage may die on any line.
func (t Problem) Message() (*nats.Msg, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("escalation of %s: %w", t.ID, err)
	}
	return &nats.Msg{Subject: streams.EscalationSubject(t.Tenant), Header: nats.Header{nats.MsgIdHdr: {t.ID}}, Data: b},
		nil
}

// Decode reads a message of ESCALATIONS. Only our own stages write there, so an
// error means that somebody else did.
func Decode(b []byte) (Problem, error) {
	var t Problem
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("escalation: %w", err)
	}
	known := t.Kind == record.DeliveryDeadLetter || t.Kind == record.EventRejected || t.Kind == record.OperatorAction
	if t.ID == "" || t.Reason == "" || t.At.IsZero() || !known {
		return t, errors.New("escalation: id, kind, reason or at is missing")
	}
	return t, envelope.ValidateTenant(t.Tenant)
}

// TellBy is when a person must have been told: at the deadline of the delivery,
// but within five minutes of the failure at the latest.
func (t Problem) TellBy() time.Time {
	latest := t.At.Add(tellWithin)
	if !t.DeliverBy.IsZero() && t.DeliverBy.Before(latest) {
		return t.DeliverBy
	}
	return latest
}
