package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Code sorts errors by what the caller should do. The values are part of the
// HTTP API: they MUST NOT change.
type Code string

const (
	CodeInvalid  Code = "invalid"   // a field is wrong: correct it
	CodeTooLarge Code = "too_large" // make it smaller
	CodeNotFound Code = "not_found" // no such endpoint, event type, event or delivery
	// somebody changed it at the same moment: look again, repeat
	CodeConflict         Code = "conflict"
	CodeIDInUse          Code = Code(outcome.ReasonIDInUse)          // a different event has this id
	CodeEndpointDisabled Code = Code(outcome.ReasonEndpointDisabled) // enable it first
	CodeEndpointDeleted  Code = Code(outcome.ReasonEndpointDeleted)  // make a new one
	CodeEventExpired     Code = "event_expired"                      // EVENTS no longer holds the event
	// CodePendingDeliveries refuses a stop that would end deliveries: say that it is meant.
	CodePendingDeliveries Code = "pending_deliveries"
	CodeNothingToReplay   Code = "nothing_to_replay" // every target was skipped
	CodeNoLedger          Code = "no_ledger"         // started without ClickHouse
	CodeNoKey             Code = "no_secrets_key"    // started without a secrets key, or without the one that is needed
	CodeUnavailable       Code = "unavailable"       // NATS or ClickHouse did not answer: repeat
)

// Error is what every method returns when it fails.
type Error struct {
	Code  Code
	Field string // which input is wrong, as the API spells it. Optional
	Err   error  // what is wrong and what to do next; never nil
}

func (e *Error) Error() string {
	if e.Field == "" || strings.HasPrefix(e.Err.Error(), e.Field+":") {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

func invalid(field, format string, args ...any) error {
	return &Error{Code: CodeInvalid, Field: field, Err: fmt.Errorf(format, args...)}
}

func failure(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// rejected turns a validation error of another package into one that names its field.
func rejected(err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	var field *envelope.FieldError
	var blocked *egress.BlockedError
	var setting *channel.FieldError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &setting):
		return &Error{Code: CodeInvalid, Field: setting.Field, Err: setting}
	case errors.As(err, &field):
		return &Error{Code: CodeInvalid, Field: field.Field, Err: err}
	case errors.As(err, &blocked):
		return &Error{Code: CodeInvalid, Field: "url", Err: err}
	}
	// Their messages begin with the field they are about; of several, the first counts.
	line, _, _ := strings.Cut(err.Error(), "\n")
	name, _, ok := strings.Cut(line, ":")
	switch {
	case name == "retry policy":
		name = "policy"
	case !ok || strings.ContainsAny(name, " \""):
		name = ""
	}
	return &Error{Code: CodeInvalid, Field: name, Err: errors.New(line)}
}

// failed sorts an error of the registry, the event log or NATS.
func failed(err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	var inUse *eventlog.InUseError
	var large *eventlog.TooLargeError
	var field *envelope.FieldError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, revision.ErrNotFound):
		return &Error{Code: CodeNotFound, Err: err}
	case errors.Is(err, revision.ErrExists), errors.Is(err, revision.ErrConflict):
		return &Error{Code: CodeConflict, Err: err}
	case errors.Is(err, sealed.ErrUnknownKey), errors.Is(err, channel.ErrNoKey):
		return &Error{Code: CodeNoKey, Err: err}
	case errors.As(err, &inUse):
		return &Error{Code: CodeIDInUse, Field: "id", Err: err}
	case errors.As(err, &large):
		return &Error{Code: CodeTooLarge, Err: err}
	case errors.As(err, &field):
		return &Error{Code: CodeInvalid, Field: field.Field, Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		return &Error{Code: CodeUnavailable, Err: fmt.Errorf("NATS did not answer: %w; the action may have happened all "+
			"the same: look before you repeat it", err)}
	}
	return &Error{Code: CodeUnavailable, Err: err}
}
