package eventlog

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Rejection says why a message that EVENTS holds is no event.
type Rejection struct {
	Reason outcome.Reason
	Err    error
}

func (r *Rejection) Error() string { return string(r.Reason) + ": " + r.Err.Error() }

func (r *Rejection) Unwrap() error { return r.Err }

// Parse reads a message of EVENTS: the event, or why it is none. It depends on
// nothing but the message, so that everybody comes to the same answer. Of what is
// refused, tenant and event are as far as they could be read.
func Parse(subject string, header nats.Header, body []byte) (tenant string, e envelope.Event, rejection *Rejection) {
	if why, refused := Refused(header); refused {
		return why.parse(subject, body)
	}
	tenant, eventType, err := streams.ParseEventSubject(subject)
	if err == nil {
		err = envelope.ValidateTenant(tenant)
	}
	if err != nil {
		return "", e, &Rejection{outcome.ReasonSubjectMismatch, err}
	}
	if len(body) > envelope.MaxEventBytes {
		return tenant, e, &Rejection{outcome.ReasonPayloadTooLarge,
			fmt.Errorf("the event has %d bytes; at most %d", len(body), envelope.MaxEventBytes)}
	}
	e, err = envelope.Parse(body)
	if err != nil {
		return tenant, envelope.Event{}, &Rejection{outcome.ReasonInvalidEvent, err}
	}
	if e.Type != eventType {
		return tenant, e, &Rejection{outcome.ReasonSubjectMismatch,
			fmt.Errorf("the subject says type %s, the event says %s", eventType, e.Type)}
	}
	if id := header.Get(nats.MsgIdHdr); id != "" && !streams.IsEventMsgID(id, tenant, e.ID) {
		return tenant, e, &Rejection{outcome.ReasonIDMismatch,
			fmt.Errorf("the header %s differs from the event's id", nats.MsgIdHdr)}
	}
	return tenant, e, nil
}

// ClaimedID is the tenant and the id under which a message may be an event, by its
// subject and header alone; ok is false when only its body can tell. An id that
// begins with its tenant and a stroke is given without them: see LookUp.
func ClaimedID(subject string, header nats.Header) (tenant, id string, ok bool) {
	tenant, _, err := streams.ParseEventSubject(subject)
	if _, refused := Refused(header); refused || err != nil {
		return "", "", true // no event at all
	}
	id = header.Get(nats.MsgIdHdr)
	return tenant, strings.TrimPrefix(id, tenant+"/"), id != ""
}

// LookUp lists the ids that ClaimedID may give for an event of this id: a message
// id has the tenant before the event's id, but for those of earlier versions.
func LookUp(tenant, id string) []string {
	if rest, ok := strings.CutPrefix(id, tenant+"/"); ok {
		return []string{id, rest}
	}
	return []string{id}
}

// Content is what makes an event this one and no other: what its receivers get,
// and who they are.
type Content struct {
	Subject string
	Only    string // the endpoint it is for, if it is for one
	// TimeAssigned: the timestamp is ours, and new each time that it is published.
	TimeAssigned bool
	Event        envelope.Event
}

// ContentOf is the content of an event that Parse gave.
func ContentOf(subject string, header nats.Header, e envelope.Event) Content {
	return Content{Subject: subject, Only: header.Get(streams.HeaderOnlyEndpoint),
		TimeAssigned: header.Get(streams.HeaderTimeAssigned) != "", Event: e}
}

// Same says whether c, which came later, is the same event as other: whether receivers
// get the same bytes. Whitespace and the order of keys around data do not count.
// A timestamp that we assigned to c does not either: it is new with every publish, so
// a producer's retry would not be recognised.
func (c Content) Same(other Content) bool {
	if c.Subject != other.Subject || c.Only != other.Only {
		return false
	}
	a, b := c.Event, other.Event
	if c.TimeAssigned {
		a.Timestamp, a.RawTimestamp = b.Timestamp, b.RawTimestamp
	}
	return bytes.Equal(canonical(a), canonical(b))
}

func canonical(e envelope.Event) []byte {
	e.DeliverBy = e.DeliverBy.UTC()
	return e.AppendJSON(nil)
}
