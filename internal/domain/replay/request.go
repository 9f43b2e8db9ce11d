// Package replay is the message by which a person asks for a past event to be
// sent again: control publishes it to REPLAYS, fanout carries it out.
package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// MaxReason bounds the stated reason, in bytes.
const MaxReason = 1000

// Request asks for one event to be sent again to some endpoints, with its
// original id. Its ID is also its message id in REPLAYS.
type Request struct {
	ID       string   `json:"id"` // rpl_ + ULID
	Tenant   string   `json:"tenant"`
	EventID  string   `json:"event_id"`
	EventSeq uint64   `json:"event_seq"` // where EVENTS has it
	Targets  []Target `json:"targets"`
	Actor    string   `json:"actor"`  // who asked
	Reason   string   `json:"reason"` // why
	// RequestedAt starts the new budget.
	RequestedAt time.Time `json:"requested_at"`
}

// Target is one endpoint to send to.
type Target struct {
	EndpointID string `json:"endpoint_id"`
	// Attempts made before, as the ledger knows: the replay's first attempt is
	// the next number, or a later one if that is taken.
	Attempts int `json:"attempts"`
}

// Validate says what is wrong with a request, the first thing only.
func (r Request) Validate() error {
	switch {
	case !ids.Valid(ids.Replay, r.ID):
		return fmt.Errorf("replay id %q: want %s and a ULID", r.ID, ids.Replay)
	case r.EventSeq == 0:
		return errors.New("replay: the event's position in EVENTS is missing")
	case len(r.Targets) == 0:
		return errors.New("replay: no endpoint to send to")
	case strings.TrimSpace(r.Actor) == "":
		return errors.New("replay: who asks for it is missing")
	case strings.TrimSpace(r.Reason) == "":
		return errors.New("replay: a reason is missing; it is part of the record")
	case len(r.Reason) > MaxReason:
		return fmt.Errorf("replay: the reason has %d bytes; at most %d", len(r.Reason), MaxReason)
	case r.RequestedAt.IsZero():
		return errors.New("replay: the time of the request is missing")
	}
	if err := envelope.ValidateTenant(r.Tenant); err != nil {
		return err
	}
	return envelope.ValidateID(r.EventID)
}

// Encode gives the message's bytes.
func (r Request) Encode() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// Decode reads a message.
func Decode(b []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("replay: %w", err)
	}
	return r, r.Validate()
}
