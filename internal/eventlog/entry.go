// Package eventlog stores events in EVENTS and reads them back. An event is
// stored once: its id is its message id, and a second event under an id that
// is in use is told apart from the same event published again.
package eventlog

import (
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ids"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Entry is one event on its way into EVENTS.
type Entry struct {
	Tenant string
	Event  envelope.Event
	// Body is the event's JSON, as it is stored.
	Body []byte
	// OnlyEndpoint sends the event to that endpoint alone. Optional.
	OnlyEndpoint string
	// Trace is the W3C trace context to pass on. Optional.
	Trace Trace

	timeAssigned bool // the timestamp is ours, so it differs between publishes
}

// Trace is W3C trace context, as in the headers traceparent and tracestate.
type Trace struct{ Parent, State string }

// TooLargeError says that an event is over the limit, in bytes.
type TooLargeError struct{ Bytes, Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event: %d bytes; at most %d: put what is large elsewhere and send its address", e.Bytes, e.Limit)
}

// Prepare reads an event as a producer wrote it. A missing id is assigned, a
// missing timestamp is now; the bytes of data stay as they are, and so do all
// bytes when nothing was missing. limit is in bytes. Errors are
// *envelope.FieldError or *TooLargeError.
func Prepare(raw []byte, tenant string, limit int, now time.Time) (Entry, error) {
	if len(raw) > limit {
		return Entry{}, &TooLargeError{len(raw), limit}
	}
	if err := envelope.ValidateTenant(tenant); err != nil {
		return Entry{}, err
	}
	ev, err := envelope.ParseDraft(raw)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Tenant: tenant, Event: ev, Body: raw}
	if ev.ID != "" && !ev.Timestamp.IsZero() {
		return e, nil
	}
	if ev.ID == "" {
		e.Event.ID = ids.New(ids.Event, now)
	}
	if ev.Timestamp.IsZero() {
		e.Event.Timestamp, e.timeAssigned = now.UTC(), true
	}
	e.Body = e.Event.AppendJSON(make([]byte, 0, len(raw)+128))
	if len(e.Body) > limit {
		return Entry{}, &TooLargeError{len(e.Body), limit}
	}
	return e, nil
}

func (e Entry) message() *nats.Msg {
	m := nats.NewMsg(streams.EventSubject(e.Tenant, e.Event.Type))
	m.Data = e.Body
	m.Header.Set(jetstream.MsgIDHeader, e.Event.ID)
	if e.timeAssigned {
		m.Header[streams.HeaderTimeAssigned] = []string{"1"}
	}
	if e.OnlyEndpoint != "" {
		m.Header.Set(streams.HeaderOnlyEndpoint, e.OnlyEndpoint)
	}
	if e.Trace.valid() {
		m.Header[streams.HeaderTraceparent] = []string{e.Trace.Parent}
		if e.Trace.State != "" && len(e.Trace.State) <= maxTraceState {
			m.Header[streams.HeaderTracestate] = []string{e.Trace.State}
		}
	}
	return m
}

// maxTraceState is the length that W3C Trace Context asks everybody to pass on.
const maxTraceState = 512

// valid drops trace context that is malformed, as W3C Trace Context asks,
// rather than refuse the event for it.
func (t Trace) valid() bool {
	return len(t.Parent) <= 128 && traceparent.MatchString(t.Parent)
}

// traceparent is version-traceid-parentid-flags; a later version may add to it.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?$`)

// Content of the event.
func (e Entry) Content() Content {
	return Content{Subject: streams.EventSubject(e.Tenant, e.Event.Type), Only: e.OnlyEndpoint, TimeAssigned: e.timeAssigned, Event: e.Event}
}

// same says whether a stored message is this event, published before.
func (e Entry) same(subject string, header nats.Header, body []byte) bool {
	stored, err := envelope.Parse(body)
	return err == nil && e.Content().Same(ContentOf(subject, header, stored))
}
