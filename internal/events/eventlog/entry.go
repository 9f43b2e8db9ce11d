// Package eventlog stores events in EVENTS and reads them back, for every way
// in. An event is stored once: its tenant and id are its message id, and a
// second event under an id that is in use is told apart from the same event
// published again.
package eventlog

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
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

	noMsgID      bool // its producer gave none
	timeAssigned bool // the timestamp is ours, so it differs between publishes
}

// Draft is an event as its producer sent it, whichever way.
type Draft struct {
	Tenant string
	Raw    []byte
	Trace  Trace
	// FromNATS: it came as a message, and Type and MsgID are what its subject and
	// its header Nats-Msg-Id say.
	FromNATS    bool
	Type, MsgID string
}

// TooLargeError says that an event is over the limit, in bytes.
type TooLargeError struct{ Bytes, Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event: %d bytes; at most %d: put what is large elsewhere and send its address", e.Bytes, e.Limit)
}

// Prepare reads an event as a producer wrote it: the one validation for every
// way in. A missing id is the message's, or is assigned; a missing timestamp is
// now; the bytes of data stay as they are, and so do all bytes when nothing was
// missing. limit is in bytes. Errors are *envelope.FieldError, *TooLargeError or
// *MismatchError.
func Prepare(d Draft, limit int, now time.Time) (Entry, error) {
	if len(d.Raw) > limit {
		return Entry{}, &TooLargeError{len(d.Raw), limit}
	}
	if err := envelope.ValidateTenant(d.Tenant); err != nil {
		return Entry{}, err
	}
	ev, err := envelope.ParseDraft(d.Raw)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Tenant: d.Tenant, Event: ev, Body: d.Raw, Trace: d.Trace, noMsgID: d.FromNATS && d.MsgID == ""}
	if d.FromNATS {
		if err := e.compare(d); err != nil {
			return Entry{}, err
		}
	}
	if e.Event.ID != "" && !ev.Timestamp.IsZero() && ev.ID == e.Event.ID {
		return e, nil
	}
	if e.Event.ID == "" {
		e.Event.ID = ids.New(ids.Event, now)
	}
	if ev.Timestamp.IsZero() {
		e.Event.Timestamp, e.timeAssigned = now.UTC(), true
	}
	e.Body = e.Event.AppendJSON(make([]byte, 0, len(d.Raw)+128))
	if len(e.Body) > limit {
		return Entry{}, &TooLargeError{len(e.Body), limit}
	}
	return e, nil
}

// compare holds an event against the message that it came in.
func (e *Entry) compare(d Draft) error {
	switch {
	case e.Event.Type != d.Type:
		return &MismatchError{outcome.ReasonSubjectMismatch, "type",
			fmt.Sprintf("the subject says type %.128s, the event says %s; publish to %s", d.Type, e.Event.Type,
				streams.EventSubject(d.Tenant, e.Event.Type))}
	case d.MsgID == "":
		return nil
	case e.Event.ID != "" && e.Event.ID != d.MsgID:
		return &MismatchError{outcome.ReasonIDMismatch, "id",
			"the header Nats-Msg-Id differs from the event's id; give both the same id"}
	}
	if err := envelope.ValidateID(d.MsgID); err != nil {
		return &MismatchError{outcome.ReasonIDMismatch, "id", "the header Nats-Msg-Id is no event id: " + err.Error()}
	}
	e.Event.ID = d.MsgID
	return nil
}

func (e Entry) message() *nats.Msg {
	m := nats.NewMsg(streams.IngestSubject(e.subject()))
	m.Data = e.Body
	m.Header.Set(jetstream.MsgIDHeader, streams.EventMsgID(e.Tenant, e.Event.ID))
	if e.noMsgID {
		m.Header[streams.HeaderNoMsgID] = []string{"1"}
	}
	if e.timeAssigned {
		m.Header[streams.HeaderTimeAssigned] = []string{"1"}
	}
	if e.OnlyEndpoint != "" {
		m.Header.Set(streams.HeaderOnlyEndpoint, e.OnlyEndpoint)
	}
	if e.Trace.Parent != "" {
		m.Header[streams.HeaderTraceparent] = []string{e.Trace.Parent}
		if e.Trace.State != "" {
			m.Header[streams.HeaderTracestate] = []string{e.Trace.State}
		}
	}
	return m
}

func (e Entry) subject() string { return streams.EventSubject(e.Tenant, e.Event.Type) }

// Content of the event.
func (e Entry) Content() Content {
	return Content{Subject: e.subject(), Only: e.OnlyEndpoint, TimeAssigned: e.timeAssigned, Event: e.Event}
}

// same says whether a stored message is this event, published before.
func (e Entry) same(subject string, header nats.Header, body []byte) bool {
	stored, err := envelope.Parse(body)
	return err == nil && e.Content().Same(ContentOf(subject, header, stored))
}
