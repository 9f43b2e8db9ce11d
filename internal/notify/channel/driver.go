package channel

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// Driver is one kind of channel. Safe for concurrent use.
type Driver interface {
	Kind() Kind
	// Settings are the fields of Channel that the kind uses, besides those of every
	// kind, by their names in JSON. Others are refused: a misplaced one would be
	// believed to work.
	Settings() []string
	// WithDefaults fills what may be left out.
	WithDefaults(c Channel) Channel
	// Validate says which setting is wrong, the first one only, as a FieldError. Whether
	// an address may be called is checked again at each connection. A sealed secret was
	// checked before it was sealed.
	Validate(c Channel, policy egress.Policy) error
	// Resolves says whether the channel keeps something open that a Resolve message
	// closes, or shows one beside what it follows.
	Resolves() bool
	// Notify makes one try. It MUST return when ctx ends, and show neither secret nor
	// content in the error that it reports.
	Notify(ctx context.Context, way *Way, c Channel, m Message) Result
}

// Action says what a message does to what was told before.
type Action string

// The actions.
const (
	Trigger Action = "trigger" // somebody must act
	Resolve Action = "resolve" // a named person acts: nobody else has to
	Test    Action = "test"
)

// Message is what people are told. It MUST hold no payload and no secret.
type Message struct {
	// ID is the same on each try, so that a receiver can drop what it had: 1 to
	// 128 characters that are safe in a header.
	ID string
	// Key is the same for everything about one incident: the pager's dedup_key.
	Key    string
	Action Action
	Title  string // one line
	Text   string // plain lines, for people
	Link   string // Optional
	Source string // who says so: a host or installation
	At     time.Time
	Try    int // 1, 2, 3 …
	// Data is the message for programs, as JSON. Optional.
	Data any
}

// Result is what came of one try.
type Result struct {
	Class outcome.Class
	// Outcome is a code: delivered, rejected, busy, timeout, unreachable,
	// tls_failed, address_blocked, misconfigured.
	Outcome    outcome.Outcome
	Status     int    // HTTP or SMTP status; 0 when none came
	Error      string // for people: no secret, no content
	StartedAt  time.Time
	Duration   time.Duration
	RetryAfter time.Duration // the receiver's wish; 0 when it had none
}

// Told says whether the message reached the channel.
func (r Result) Told() bool { return r.Class == outcome.ClassDelivered }

// Clip bounds a text in bytes, at the end of a character.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}

// Misconfigured is what came of a channel that cannot work as it is set.
func Misconfigured(why string) Result {
	return Result{Class: outcome.ClassTerminal, Outcome: outcome.Misconfigured,
		Error: why + "; change the channel with: waybill channel update"}
}

// Failed sorts an error of the network.
func Failed(err error) Result {
	r := Result{Class: outcome.ClassRetryable, Outcome: outcome.Unreachable, Error: err.Error()}
	var blocked *egress.BlockedError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &blocked):
		r.Class, r.Outcome = outcome.ClassTerminal, outcome.AddressBlocked
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert):
		r.Outcome = outcome.TLSFailed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		r.Outcome, r.Error = outcome.Timeout, "no answer in time"
	}
	return r
}

// JSON is the message for programs.
func (m Message) JSON() (json.RawMessage, error) {
	if m.Data == nil {
		return json.Marshal(map[string]string{"title": m.Title, "text": m.Text})
	}
	return json.Marshal(m.Data)
}
